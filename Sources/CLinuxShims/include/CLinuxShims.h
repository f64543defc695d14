/// What Linux offers and Swift cannot reach through its Glibc module: structures and constants that glibc hides
/// behind _GNU_SOURCE (which that module is built without), flexible array members, control messages, and system
/// calls that have no wrapper. Every function is static inline, sets errno like the call that it makes, and is never
/// restarted here: EINTR and EAGAIN are the caller's to judge.
#pragma once

#include "larder_clock.h"
#include "larder_crashes.h"
#include "larder_epoll.h"
#include "larder_files.h"
#include "larder_inotify.h"
#include "larder_memory.h"
#include "larder_processes.h"
#include "larder_sockets.h"
