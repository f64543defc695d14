/// What Linux offers and Swift cannot reach through its Glibc module: structures and constants that glibc hides
/// behind _GNU_SOURCE (which that module is built without), flexible array members, control messages, and system
/// calls that have no wrapper. Every function sets errno like the call that it makes, and is never restarted here: EINTR
/// and EAGAIN are the caller's to judge.
///
/// These headers include none of glibc's. The compiler takes a declaration that is in two modules from the one that it loads
/// first, so that a Swift file that uses `stat` would have to import both.
#pragma once

#include "larder_clock.h"
#include "larder_crashes.h"
#include "larder_epoll.h"
#include "larder_files.h"
#include "larder_inotify.h"
#include "larder_memory.h"
#include "larder_processes.h"
#include "larder_sockets.h"
