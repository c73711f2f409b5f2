//! Walking from a root down to the leaves.

use crate::btree::{self, Bounds, TreePage};
use crate::pages::{Page, PageSet, Pages};

/// A walk over the leaves of trees.
pub(crate) struct TreeWalk<'a> {
    pages: &'a Pages,
    /// Pages that are entered only as roots, never from a parent.
    closed: &'a PageSet,
    pub(crate) visited: PageSet,
    /// The branches that are still to be visited. The last element is the next one to visit.
    stack: Vec<Branch>,
    pub(crate) damage: WalkDamage,
}

/// The damage found during a walk.
#[derive(Default)]
pub(crate) struct WalkDamage {
    /// Pages that cannot be read or are not of the expected kind.
    pub(crate) unreadable: u32,
    /// Pages whose contents do not add up, and interior pages whose keys are out of order.
    pub(crate) inconsistent: u32,
    /// True if an interior page or a root is damaged. In that case, there may be unreachable pages.
    pub(crate) links_lost: bool,
    /// Pages that have more than one parent.
    pub(crate) disputed: Vec<u32>,
}

/// A page to visit, and the bounds of its keys.
struct Branch {
    page: u32,
    bounds: Bounds,
    is_root: bool,
}

impl<'a> TreeWalk<'a> {
    pub(crate) fn new(pages: &'a Pages, closed: &'a PageSet) -> TreeWalk<'a> {
        let visited = PageSet::new(pages);
        TreeWalk { pages, closed, visited, stack: Vec::new(), damage: WalkDamage::default() }
    }

    /// Continues the walk with the tree that begins at `root`.
    pub(crate) fn start_at(&mut self, root: u32) {
        self.stack.push(Branch { page: root, bounds: Bounds::NONE, is_root: true });
    }

    /// Returns the next leaf, with the cells whose keys are in order and within the bounds.
    pub(crate) fn next_leaf(&mut self) -> Option<(Page, TreePage)> {
        while let Some(branch) = self.stack.pop() {
            let Some((page, mut tree)) = self.visit_page(&branch) else { continue };
            if tree.is_leaf {
                tree.drop_out_of_order(&branch.bounds);
                self.damage.inconsistent += u32::from(!tree.adds_up);
                return Some((page, tree));
            }
            self.push_children(&tree, &branch.bounds);
        }
        None
    }

    fn visit_page(&mut self, branch: &Branch) -> Option<(Page, TreePage)> {
        let number = branch.page;
        let closed = self.closed.contains(number) && !branch.is_root;
        let page = if closed || self.pages.is_special(number) {
            None
        } else {
            self.read_tree_page(number)
        };
        let found = page.filter(|(_, tree)| tree.has_keys_within(&branch.bounds));
        if found.is_none() {
            self.damage.unreadable += 1;
            self.damage.links_lost = true;
        } else if !self.visited.insert(number) {
            self.damage.disputed.push(number);
            return None;
        }
        found
    }

    fn read_tree_page(&self, number: u32) -> Option<(Page, TreePage)> {
        let page = self.pages.read_page(number)?;
        let tree = btree::parse_tree_page(&page, self.pages.count)?;
        Some((page, tree))
    }

    fn push_children(&mut self, tree: &TreePage, bounds: &Bounds) {
        let in_order = tree.in_order(bounds);
        if !tree.adds_up || in_order.contains(&false) {
            self.damage.inconsistent += 1;
            self.damage.links_lost = true;
        }
        // Push the children from the last to the first, so that the first one is on top of the
        // stack. Keys that are out of order are not used as bounds.
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
