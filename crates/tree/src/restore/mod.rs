use crate::workspace::Lock;
pub(crate) struct Recovery;
impl Lock<'_> {
    pub(crate) fn recover(&mut self) {
        let _ = &self.recovery;
    }
}
