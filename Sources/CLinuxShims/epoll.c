#include "CLinuxShims.h"

#include <stddef.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>

_Static_assert(sizeof(struct larder_epoll_event) == sizeof(struct epoll_event), "size");
_Static_assert(offsetof(struct larder_epoll_event, number) == offsetof(struct epoll_event, data), "offset");
_Static_assert(LARDER_EPOLL_IN == EPOLLIN && LARDER_EPOLL_OUT == EPOLLOUT && LARDER_EPOLL_ERR == EPOLLERR, "events");
_Static_assert(LARDER_EPOLL_HUP == EPOLLHUP && LARDER_EPOLL_RDHUP == EPOLLRDHUP, "events");
_Static_assert(LARDER_EPOLL_ET == (unsigned int)EPOLLET, "events");
_Static_assert(LARDER_EPOLL_ADD == EPOLL_CTL_ADD && LARDER_EPOLL_DELETE == EPOLL_CTL_DEL, "operations");
_Static_assert(LARDER_EPOLL_CHANGE == EPOLL_CTL_MOD, "operations");

int larder_epoll_create(void) { return epoll_create1(EPOLL_CLOEXEC); }

int larder_epoll_control(int epoll, int operation, int fd, struct larder_epoll_event *event) {
    return epoll_ctl(epoll, operation, fd, (struct epoll_event *)(void *)event);
}

int larder_epoll_wait(int epoll, struct larder_epoll_event *events, int capacity, int milliseconds) {
    return epoll_wait(epoll, (struct epoll_event *)(void *)events, capacity, milliseconds);
}

int larder_eventfd(void) { return eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK); }

int larder_timerfd(void) { return timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK); }

int larder_timerfd_set(int fd, long long nanoseconds) {
    // A time of 0 would disarm the timer.
    long long time = nanoseconds > 0 ? nanoseconds : 1;
    struct itimerspec setting = {.it_value = {.tv_sec = time / 1000000000, .tv_nsec = time % 1000000000}};
    return timerfd_settime(fd, TFD_TIMER_ABSTIME, &setting, NULL);
}
