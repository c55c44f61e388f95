//! An advisory lock on an open file, gone with the process that holds it; the same that Python's writer takes.

use std::fs::File;

#[cfg(unix)]
pub(crate) fn lock(file: &File) -> bool {
    use std::os::unix::io::AsRawFd;

    extern "C" {
        fn flock(descriptor: i32, operation: i32) -> i32;
    }
    const EXCLUSIVE_NOW: i32 = 2 | 4; // LOCK_EX | LOCK_NB
                                      // SAFETY: flock only looks at the descriptor, which is open as long as the file is
    if unsafe { flock(file.as_raw_fd(), EXCLUSIVE_NOW) } == 0 {
        return true;
    }
    // a file system without locks gives it to everyone
    let error = std::io::Error::last_os_error().kind();
    error != std::io::ErrorKind::WouldBlock && error != std::io::ErrorKind::PermissionDenied
}

/// Elsewhere one folder has one writer because users keep to it.
#[cfg(not(unix))]
pub(crate) fn lock(_file: &File) -> bool {
    true
}
