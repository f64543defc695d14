/// epoll(7), eventfd(2) and timerfd_create(2), which Swift's Glibc module does not export.
#pragma once

/// The kernel's struct epoll_event, with its 64 bits of data as two numbers.
struct larder_epoll_event {
    unsigned int events;
#ifndef __x86_64__
    unsigned int padding;  // the structure is packed on x86-64 only
#endif
    unsigned int number;
    unsigned int generation;
};

#define LARDER_EPOLL_IN 0x001u
#define LARDER_EPOLL_OUT 0x004u
#define LARDER_EPOLL_ERR 0x008u
#define LARDER_EPOLL_HUP 0x010u
#define LARDER_EPOLL_RDHUP 0x2000u
#define LARDER_EPOLL_ET 0x80000000u

#define LARDER_EPOLL_ADD 1
#define LARDER_EPOLL_DELETE 2
#define LARDER_EPOLL_CHANGE 3

/// epoll_create1(2), close-on-exec. Returns a descriptor, or -1 with errno set.
int larder_epoll_create(void);

/// epoll_ctl(2). `operation` is LARDER_EPOLL_ADD, _DELETE or _CHANGE. Returns 0, or -1 with errno set.
int larder_epoll_control(int epoll, int operation, int fd, struct larder_epoll_event *event);

/// epoll_wait(2). Returns the number of events, or -1 with errno set.
int larder_epoll_wait(int epoll, struct larder_epoll_event *events, int capacity, int milliseconds);

/// eventfd(2), close-on-exec and nonblocking. Returns a descriptor, or -1 with errno set.
int larder_eventfd(void);

/// timerfd_create(2) with CLOCK_BOOTTIME, close-on-exec and nonblocking. Returns a descriptor, or -1 with errno set.
int larder_timerfd(void);

/// Makes a timerfd readable at an absolute time of its clock, in nanoseconds. A time in the past takes effect at once.
/// Returns 0, or -1 with errno set.
int larder_timerfd_set(int fd, long long nanoseconds);
