//! Words that streams write, and that other streams wait for.
#![allow(unsafe_code)] // calls into the driver

use super::{DeviceError, Stream, Word};

/// `CU_STREAM_WAIT_VALUE_GEQ`, by the difference as a signed number: the count may run over.
const GREATER_OR_EQUAL: u32 = 0;

impl Stream {
    /// Enqueues that the low half of `word` becomes `count`, once all that was enqueued before has ended and can be seen.
    ///
    /// # Errors
    /// The driver is older than CUDA 11.7, or whatever it says.
    pub fn post(&self, word: Word<'_>, count: u32) -> Result<(), DeviceError> {
        word.check("a count")?;
        let entered = self.shared.context.enter()?;
        let write = entered.driver.cuStreamWriteValue32_v2()?;
        // SAFETY: a word is device memory for as long as its work lasts.
        let code = unsafe { write(self.handle, word.address(), count, 0) };
        entered.driver.check("cuStreamWriteValue32_v2", code)
    }

    /// Lets what is enqueued here from now on wait until the low half of `word` is `count`, or one of the 2^31 − 1 numbers
    /// that come next.
    ///
    /// Nothing but a write to the word ends that: not even an error of whoever was to write there, nor the end of its
    /// process. It cannot be recorded in a graph.
    ///
    /// # Errors
    /// The driver is older than CUDA 11.7, or whatever it says.
    pub fn wait_for(&self, word: Word<'_>, count: u32) -> Result<(), DeviceError> {
        word.check("a count")?;
        let entered = self.shared.context.enter()?;
        let wait = entered.driver.cuStreamWaitValue32_v2()?;
        // SAFETY: as above.
        let code = unsafe { wait(self.handle, word.address(), count, GREATER_OR_EQUAL) };
        entered.driver.check("cuStreamWaitValue32_v2", code)
    }
}
