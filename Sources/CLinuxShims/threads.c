// Threads, and the signals that stop the process.
#define _GNU_SOURCE
#include "CLinuxShims.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct start {
    char name[16];
    void *(*body)(void *);
    void *argument;
};

static void *run(void *context) {
    struct start start = *(struct start *)context;
    free(context);
    larder_name_thread(start.name);
    return start.body(start.argument);
}

int larder_start_thread(const char *name, size_t stack, void *(*body)(void *), void *argument) {
    struct start *start = calloc(1, sizeof(*start));
    if (!start) return ENOMEM;
    strncpy(start->name, name, sizeof(start->name) - 1);
    start->body = body;
    start->argument = argument;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    if (stack > 0) pthread_attr_setstacksize(&attributes, stack);
    pthread_t thread;
    int failure = pthread_create(&thread, &attributes, run, start);
    pthread_attr_destroy(&attributes);
    if (failure) free(start);
    return failure;
}

static int stop_event = -1;

static void note_stop(int number) {
    (void)number;
    int before = errno;
    uint64_t one = 1;
    ssize_t written = write(stop_event, &one, sizeof(one));
    (void)written;
    errno = before;
}

int larder_catch_stop(void) {
    stop_event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (stop_event < 0) return -1;
    struct sigaction action = {.sa_handler = note_stop, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    if (sigaction(SIGTERM, &action, NULL) != 0 || sigaction(SIGINT, &action, NULL) != 0) return -1;
    return stop_event;
}
