/// Linux interfaces that Swift's Glibc module does not export: structures and constants that glibc declares only with
/// _GNU_SOURCE (which that module is built without), flexible array members, control messages, and system calls without
/// a wrapper. Every function sets errno like the call that it makes. No call is restarted; callers handle EINTR and
/// EAGAIN.
///
/// These headers include no glibc headers. If two modules have the same declaration, the compiler takes it from the
/// module that it loads first. A Swift file that uses `stat` would then have to import both modules.
#pragma once

#include "larder_clock.h"
#include "larder_crashes.h"
#include "larder_epoll.h"
#include "larder_files.h"
#include "larder_inotify.h"
#include "larder_memory.h"
#include "larder_processes.h"
#include "larder_sockets.h"
#include "larder_threads.h"
