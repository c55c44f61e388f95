//! An advisory lock on an open file, gone with the process that holds it; the same that Python's writer takes.

use std::fs::File;

/// Take the lock; false if another handle has it. A file system without locks gives it to everyone.
pub(crate) fn lock(file: &File) -> bool {
    const EXCLUSIVE_NOW: i32 = 2 | 4; // LOCK_EX | LOCK_NB
    operate(file, EXCLUSIVE_NOW)
}

/// Give the lock back. Closing the file is not enough: a process forked meanwhile holds it, too, until it runs its program.
pub(crate) fn unlock(file: &File) {
    const UNLOCK: i32 = 8; // LOCK_UN
    operate(file, UNLOCK);
}

#[cfg(unix)]
fn operate(file: &File, operation: i32) -> bool {
    use std::os::unix::io::AsRawFd;

    extern "C" {
        fn flock(descriptor: i32, operation: i32) -> i32;
    }
    // SAFETY: flock only looks at the descriptor, which is open as long as the file is
    if unsafe { flock(file.as_raw_fd(), operation) } == 0 {
        return true;
    }
    let error = std::io::Error::last_os_error().kind();
    error != std::io::ErrorKind::WouldBlock && error != std::io::ErrorKind::PermissionDenied
}

/// Elsewhere one folder has one writer because users keep to it.
#[cfg(not(unix))]
fn operate(_file: &File, _operation: i32) -> bool {
    true
}
