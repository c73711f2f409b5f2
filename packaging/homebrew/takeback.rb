# `cargo xtask dist` fills in the words in braces, and writes the result to target/packages.
class Takeback < Formula
  desc "Take back what an AI agent did, in your files and in its conversation, together"
  homepage "{repository}"
  version "{version}"
  license any_of: ["MIT", "Apache-2.0"]

  on_macos do
    on_arm do
      url "{base_url}/v{version}/takeback-{version}-darwin-arm64.tar.gz"
      sha256 "{sha256:takeback-{version}-darwin-arm64.tar.gz}"
    end
    on_intel do
      url "{base_url}/v{version}/takeback-{version}-darwin-x64.tar.gz"
      sha256 "{sha256:takeback-{version}-darwin-x64.tar.gz}"
    end
  end

  on_linux do
    on_arm do
      url "{base_url}/v{version}/takeback-{version}-linux-arm64.tar.gz"
      sha256 "{sha256:takeback-{version}-linux-arm64.tar.gz}"
    end
    on_intel do
      url "{base_url}/v{version}/takeback-{version}-linux-x64.tar.gz"
      sha256 "{sha256:takeback-{version}-linux-x64.tar.gz}"
    end
  end

  def install
    bin.install "bin/takeback"
    man1.install Dir["share/man/man1/*.1"]
    bash_completion.install "share/bash-completion/completions/takeback"
    zsh_completion.install "share/zsh/site-functions/_takeback"
    fish_completion.install "share/fish/vendor_completions.d/takeback.fish"
  end

  test do
    # The home directory itself cannot be a workspace.
    file = testpath/"shop/file"
    file.write "mine"
    cd testpath/"shop" do
      system bin/"takeback", "checkpoint"
      file.delete
      system bin/"takeback", "rollback", "1", "--yes"
    end
    assert_equal "mine", file.read
  end
end
