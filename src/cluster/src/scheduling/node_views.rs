//! The nodes of a snapshot. A view of a node of the world is made when somebody first looks at it: most plans look at few of
//! many.

use std::cell::OnceCell;
use std::ops::{Index, IndexMut};

use crate::scheduling::snapshot::{NodeIx, NodeView, Presence};
use crate::world::digest::Amounts;
use crate::world::{NodeId, World};

/// Views that are made together: neighbours in order of names, which are often looked at one after the other.
const CHUNK: usize = 64;

/// Views by index: those of the world in order of names, then those added.
#[derive(Debug)]
pub(super) struct NodeViews<'w> {
    world: &'w World,
    /// The delivered nodes of the world, in order of names.
    real: Vec<NodeId>,
    /// Views of those, as far as they were asked for.
    made: Vec<OnceCell<Box<[NodeView<'w>]>>>,
    added: Vec<NodeView<'w>>,
    /// By index. In a table of its own, as what follows, since searches look at all nodes.
    presences: Vec<Presence>,
    /// By index: what is left of the amounts that decide most.
    rooms: OnceCell<Vec<Amounts>>,
}

impl<'w> NodeViews<'w> {
    pub(super) fn new(world: &'w World) -> Self {
        let real: Vec<NodeId> = world.digests().map(|(id, _, _)| id).collect();
        let mut made = Vec::new();
        made.resize_with(real.len().div_ceil(CHUNK), OnceCell::new);
        let presences = vec![Presence::Present; real.len()];
        Self { world, real, made, added: Vec::new(), presences, rooms: OnceCell::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.real.len() + self.added.len()
    }

    /// The nodes of the world, by index.
    pub(super) fn real(&self) -> &[NodeId] {
        &self.real
    }

    /// The view of a node, if anybody has looked at it: until then it is as the world has it.
    pub(super) fn made(&self, node: NodeIx) -> Option<&NodeView<'w>> {
        let at = node.0 as usize;
        match at.checked_sub(self.real.len()) {
            Some(added) => self.added.get(added),
            None => self.made[at / CHUNK].get().map(|chunk| &chunk[at % CHUNK]),
        }
    }

    pub(super) fn push(&mut self, view: NodeView<'w>) {
        self.rooms_mut().push(Amounts::default());
        self.presences.push(Presence::Present);
        self.added.push(view);
    }

    /// Drops the view that was added last.
    pub(super) fn pop(&mut self) {
        if self.added.pop().is_some() {
            self.presences.pop();
            self.rooms_mut().pop();
        }
    }

    pub(super) fn presence(&self, node: NodeIx) -> Presence {
        self.presences[node.0 as usize]
    }

    pub(super) fn set_presence(&mut self, node: NodeIx, presence: Presence) {
        self.presences[node.0 as usize] = presence;
    }

    pub(super) fn room(&self, node: NodeIx) -> Amounts {
        self.rooms.get_or_init(|| self.rooms_of_world())[node.0 as usize]
    }

    pub(super) fn set_room(&mut self, node: NodeIx, room: Amounts) {
        self.rooms_mut()[node.0 as usize] = room;
    }

    fn rooms_mut(&mut self) -> &mut Vec<Amounts> {
        if self.rooms.get().is_none() {
            // Nothing was added or changed yet.
            self.rooms = OnceCell::from(self.rooms_of_world());
        }
        self.rooms.get_mut().expect("set above")
    }

    fn rooms_of_world(&self) -> Vec<Amounts> {
        let digests = self.real.iter().map(|id| self.world.digest(*id));
        digests.map(|digest| digest.allocatable.less(digest.requested)).collect()
    }

    fn make(&self, chunk: usize) -> Box<[NodeView<'w>]> {
        let ids = self.real.chunks(CHUNK).nth(chunk).unwrap_or_default();
        ids.iter().filter_map(|id| NodeView::of(*id, self.world)).collect()
    }
}

impl<'w> Index<NodeIx> for NodeViews<'w> {
    type Output = NodeView<'w>;

    fn index(&self, node: NodeIx) -> &NodeView<'w> {
        let at = node.0 as usize;
        match at.checked_sub(self.real.len()) {
            Some(added) => &self.added[added],
            None => &self.made[at / CHUNK].get_or_init(|| self.make(at / CHUNK))[at % CHUNK],
        }
    }
}

impl<'w> IndexMut<NodeIx> for NodeViews<'w> {
    fn index_mut(&mut self, node: NodeIx) -> &mut NodeView<'w> {
        let at = node.0 as usize;
        if let Some(added) = at.checked_sub(self.real.len()) {
            return &mut self.added[added];
        }
        let chunk = at / CHUNK;
        if self.made[chunk].get().is_none() {
            self.made[chunk] = OnceCell::from(self.make(chunk));
        }
        &mut self.made[chunk].get_mut().expect("made above")[at % CHUNK]
    }
}
