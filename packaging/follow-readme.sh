#!/bin/sh
# Follows the README in a clean root: a new HOME, and a PATH with only the given program and the
# system's programs. Fails if a command in the section "Sixty seconds" fails.
#
# usage: follow-readme.sh README PROGRAM
#
# A stand-in for Claude Code reports two turns to takeback's hooks, and deletes a file. The stand-in
# repeats its turns before each command that takes something back, because the README shows these
# commands as alternatives. Each command runs as the README shows it, but without a terminal, so
# rollbacks get --yes. `takeback serve` must still be running after five seconds.
set -eu

readme=$(realpath "$1")
program=$(realpath "$2")
root=$(mktemp -d)
trap 'rm -rf "$root" 2> /dev/null || true' EXIT

mkdir -p "$root/bin" "$root/home/code/shop/src"
ln -s "$program" "$root/bin/takeback"
cat > "$root/bin/claude" << 'CLAUDE'
#!/bin/sh
# Arguments mean that a conversation is to be resumed. In that case, exit immediately.
[ $# -eq 0 ] || exit 0
session=$(cat /proc/sys/kernel/random/uuid)
log="$HOME/.claude/projects/shop/$session.jsonl"
mkdir -p "${log%/*}" src
echo 'def total(items): pass' > src/cart.py
say() {
    printf '{"type":"%s","uuid":"%s","parentUuid":%s,"version":"2.1.325","sessionId":"%s","cwd":"%s","timestamp":"%s","message":{"role":"%s","content":%s}}\n' \
        "$1" "$2" "$3" "$session" "$PWD" "$(date -u +%Y-%m-%dT%H:%M:%S.000Z)" "$1" "$4" >> "$log"
}
report() {
    printf '{"session_id":"%s","transcript_path":"%s","cwd":"%s","prompt_id":"%s","hook_event_name":"%s"%s}' \
        "$session" "$log" "$PWD" "$session-$turn" "$1" "$2" | takeback hook claude > /dev/null
}
turn=1
report UserPromptSubmit ',"prompt":"look at chat-send"'
say user 1 null '"look at chat-send"'
say assistant 2 '"1"' '[{"type":"text","text":"It sends."}]'
report Stop ''
turn=2
report UserPromptSubmit ',"prompt":"tidy up"'
say user 3 '"2"' '"tidy up"'
call=',"tool_name":"Bash","tool_use_id":"'$session'","tool_input":{"command":"rm src/cart.py"}'
report PreToolUse "$call"
rm src/cart.py
report PostToolUse "$call,\"tool_response\":{\"stdout\":\"\"}"
say assistant 4 '"3"' '[{"type":"text","text":"Done."}]'
report Stop ''
CLAUDE
chmod +x "$root/bin/claude"

in_clean_root() {
    env -i HOME="$root/home" PATH="$root/bin:/usr/bin:/bin" TMPDIR="$root" TERM=dumb "$@" < /dev/null
}

# Adds the options that a command needs without a terminal.
adapt() {
    case "$1" in
        *--resume) echo "$1 --yes" ;;
        "takeback rollback"* | "takeback undo"*) echo "$1 --yes" ;;
        "takeback serve"*) echo "timeout 5 ${1% --open}; [ \$? -eq 124 ]" ;;
        *) echo "$1" ;;
    esac
}

directory="$root/home"
sed -n '/^## Sixty seconds/,/^## /s/^\$ //p' "$readme" | sed 's/  *#.*//' > "$root/commands"
count=0
while IFS= read -r line; do
    count=$((count + 1))
    case "$line" in
        "takeback rollback 1"* | "takeback undo") (cd "$directory" && in_clean_root claude) ;;
    esac
    if ! (cd "$directory" && in_clean_root sh -c "$(adapt "$line")" > "$root/output" 2>&1); then
        echo "failed: $line" >&2
        cat "$root/output" >&2
        exit 1
    fi
    case "$line" in *"cd ~/code/shop"*) directory="$root/home/code/shop" ;; esac
done < "$root/commands"
[ "$count" -ge 10 ] || { echo "found only $count commands in $readme" >&2; exit 1; }
echo "$count commands of the README work"
