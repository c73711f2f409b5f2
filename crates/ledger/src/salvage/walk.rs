//! From a root down to the leaves.

use super::btree::{self, Bounds, TreePage};
use super::pages::{Page, PageSet, Pages};

pub(super) struct Walk<'a> {
    pages: &'a Pages,
    /// Pages that no parent leads to, whatever it says.
    closed: &'a PageSet,
    pub(super) visited: PageSet,
    /// What is still to be looked at, the next one last.
    stack: Vec<Branch>,
    pub(super) findings: Findings,
}

/// What was wrong on the way.
#[derive(Default)]
pub(super) struct Findings {
    /// Children that can not be read or are not what the parent says.
    pub(super) unreadable: u32,
    /// Pages that contradict themselves.
    pub(super) inconsistent: u32,
    /// An interior page or a root is damaged: there may be pages that nothing leads to.
    pub(super) links_lost: bool,
    /// Pages that two parents lead to.
    pub(super) disputed: Vec<u32>,
}

struct Branch {
    page: u32,
    bounds: Bounds,
    is_root: bool,
}

impl<'a> Walk<'a> {
    pub(super) fn new(pages: &'a Pages, closed: &'a PageSet) -> Walk<'a> {
        let visited = PageSet::new(pages);
        Walk { pages, closed, visited, stack: Vec::new(), findings: Findings::default() }
    }

    pub(super) fn start(&mut self, root: u32) {
        self.stack.push(Branch { page: root, bounds: Bounds::NONE, is_root: true });
    }

    /// The next leaf, with the cells that can be where they are.
    pub(super) fn next_leaf(&mut self) -> Option<(Page, TreePage)> {
        while let Some(branch) = self.stack.pop() {
            let Some((page, mut tree)) = self.visit(&branch) else { continue };
            if tree.is_leaf {
                tree.drop_out_of_order(&branch.bounds);
                self.findings.inconsistent += u32::from(!tree.adds_up);
                return Some((page, tree));
            }
            self.descend(&tree, &branch.bounds);
        }
        None
    }

    fn visit(&mut self, branch: &Branch) -> Option<(Page, TreePage)> {
        let number = branch.page;
        let closed = self.closed.contains(number) && !branch.is_root;
        let page = if closed || self.pages.is_special(number) { None } else { self.read(number) };
        let found = page.filter(|(_, tree)| tree.fits(&branch.bounds));
        if found.is_none() {
            self.findings.unreadable += 1;
            self.findings.links_lost = true;
        } else if !self.visited.insert(number) {
            self.findings.disputed.push(number);
            return None;
        }
        found
    }

    fn read(&self, number: u32) -> Option<(Page, TreePage)> {
        let page = self.pages.read(number)?;
        let tree = btree::parse(&page, self.pages.count)?;
        Some((page, tree))
    }

    fn descend(&mut self, tree: &TreePage, bounds: &Bounds) {
        let in_order = tree.in_order(bounds);
        if !tree.adds_up || in_order.contains(&false) {
            self.findings.inconsistent += 1;
            self.findings.links_lost = true;
        }
        // From the last child to the first, which is then on top of the stack. The keys that can
        // not be right are bounds for nobody.
        let mut page = tree.right_child;
        let mut up_to = bounds.up_to;
        for (cell, in_order) in tree.cells.iter().zip(in_order).rev() {
            if in_order {
                let bounds = Bounds { after: Some(cell.key), up_to };
                self.stack.push(Branch { page, bounds, is_root: false });
                (page, up_to) = (cell.link, cell.key);
            } else {
                self.stack.push(Branch { page: cell.link, bounds: *bounds, is_root: false });
            }
        }
        let bounds = Bounds { after: bounds.after, up_to };
        self.stack.push(Branch { page, bounds, is_root: false });
    }
}
