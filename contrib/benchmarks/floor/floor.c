// A minimal server that shows the lower bound of each benchmark figure: an epoll loop that replies to lines.
//
//   floor SOCKET [JOURNAL]
//
// The server does not parse JSON. It answers every line with the reply to a `config.get` of the value that was set last, and
// sends all replies to the lines of one read in one write. A line that contains "config.subscribe" also makes its connection
// a subscriber. A line that contains "config.set" sends its value to every subscriber as an event. With JOURNAL, the server
// collects the "config.set" lines of all connections that one epoll_wait(2) reports. Before it replies, it appends these
// lines to the file JOURNAL with one write and one fdatasync(2), which is the minimum cost of a durable publication.
//
// For benchmarks with trusted input only: a line longer than the buffer ends the connection.

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { MAX_DESCRIPTORS = 20000, LINE_BYTES = 1 << 21, OUTPUT_BYTES = 1 << 22, BACKLOG = 4096, MAX_EVENTS = 256 };

static const char reply_head[] = "{\"jsonrpc\":\"2.0\",\"id\":100,\"result\":{\"value\":";
static const char reply_tail[] = ",\"revision\":1,\"epoch\":\"0123456789abcdef\",\"state\":\"fresh\"}}\n";
static char reply[LINE_BYTES + sizeof reply_head + sizeof reply_tail];
static size_t reply_bytes;
static const char event_head[] =
    "{\"jsonrpc\":\"2.0\",\"method\":\"config.event\",\"params\":{\"subscription\":1,\"sequence\":1,\"kind\":\"snapshot\","
    "\"namespace\":\"default\",\"epoch\":\"0123456789abcdef\",\"revision\":1,\"state\":\"fresh\",\"reason\":\"change\","
    "\"value\":";

struct client {
    bool subscriber, ended;
    char *partial;  // the beginning of an incomplete line
    size_t partial_bytes;
};

static struct client clients[MAX_DESCRIPTORS];
static char input[LINE_BYTES], output[OUTPUT_BYTES], event[LINE_BYTES + sizeof event_head], record[OUTPUT_BYTES];
static size_t record_bytes;
static int loop, journal = -1, highest;

static void fail(const char *operation) {
    perror(operation);
    exit(1);
}

// Sends all bytes. Blocks while the socket buffer is full, which does not happen in measurements.
static bool send_all(int fd, const char *bytes, size_t count) {
    while (count > 0) {
        ssize_t sent = send(fd, bytes, count, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent < 0) return false;
        bytes += sent;
        count -= (size_t)sent;
    }
    return true;
}

static void drop(int fd) {
    free(clients[fd].partial);
    memset(&clients[fd], 0, sizeof clients[fd]);
    close(fd);
}

static void set_reply(const char *value, size_t count) {
    memcpy(reply, reply_head, sizeof reply_head - 1);
    memcpy(reply + sizeof reply_head - 1, value, count);
    memcpy(reply + sizeof reply_head - 1 + count, reply_tail, sizeof reply_tail - 1);
    reply_bytes = sizeof reply_head - 1 + count + sizeof reply_tail - 1;
}

static void publish(const char *line, size_t count) {
    const char *value = memmem(line, count, "\"value\":", 8);
    if (value == NULL) return;
    value += 8;
    // The value runs to the end of the line: "value" is the last member of "params", and "params" is the last member of
    // the request.
    size_t rest = count - (size_t)(value - line);
    if (rest > 3) set_reply(value, rest - 3);
    size_t size = sizeof event_head - 1;
    memcpy(event, event_head, size);
    memcpy(event + size, value, rest);
    size += rest;
    for (int fd = 0; fd <= highest; fd++)
        if (clients[fd].subscriber) send_all(fd, event, size);
}

// Puts the incomplete line of the connection, followed by the bytes that have arrived, into `input`. Returns the number of
// bytes in `input`.
static size_t receive(int fd) {
    struct client *client = &clients[fd];
    if (client->partial_bytes > 0) memcpy(input, client->partial, client->partial_bytes);
    ssize_t received = recv(fd, input + client->partial_bytes, sizeof input - client->partial_bytes, MSG_DONTWAIT);
    if (received == 0 || (received < 0 && errno != EAGAIN && errno != EINTR)) client->ended = true;
    return client->partial_bytes + (received > 0 ? (size_t)received : 0);
}

static void keep(int fd, const char *bytes, size_t count) {
    struct client *client = &clients[fd];
    free(client->partial);
    client->partial = NULL;
    client->partial_bytes = count;
    if (count == 0) return;
    client->partial = malloc(count);
    if (client->partial == NULL) fail("malloc");
    memcpy(client->partial, bytes, count);
}

// Answers the complete lines in `count` bytes of input and keeps the rest. Returns false if the connection must be closed.
static bool answer(int fd, size_t count) {
    size_t start = 0, queued = 0;
    for (char *end; (end = memchr(input + start, '\n', count - start)) != NULL;) {
        size_t size = (size_t)(end + 1 - input) - start;
        const char *line = input + start;
        // Only the first 256 bytes are searched: they contain the method, which precedes the value.
        size_t method_bytes = size < 256 ? size : 256;
        start += size;
        if (memmem(line, method_bytes, "config.subscribe", 16) != NULL) clients[fd].subscriber = true;
        if (memmem(line, method_bytes, "config.set", 10) != NULL) publish(line, size);
        if (queued + reply_bytes > sizeof output) {
            if (!send_all(fd, output, queued)) return false;
            queued = 0;
        }
        memcpy(output + queued, reply, reply_bytes);
        queued += reply_bytes;
    }
    if (queued > 0 && !send_all(fd, output, queued)) return false;
    if (count - start == sizeof input) return false;
    keep(fd, input + start, count - start);
    return !clients[fd].ended;
}

// Adds the "config.set" lines in `count` bytes of input to the record that commit() writes.
static void add_to_record(size_t count) {
    size_t start = 0;
    for (char *end; (end = memchr(input + start, '\n', count - start)) != NULL;) {
        size_t size = (size_t)(end + 1 - input) - start;
        if (memmem(input + start, size < 256 ? size : 256, "config.set", 10) != NULL) {
            if (record_bytes + size > sizeof record) fail("the record buffer is full");
            memcpy(record + record_bytes, input + start, size);
            record_bytes += size;
        }
        start += size;
    }
}

static void commit(void) {
    if (record_bytes == 0) return;
    if (write(journal, record, record_bytes) != (ssize_t)record_bytes || fdatasync(journal) != 0) fail("journal");
    record_bytes = 0;
}

static void watch(int fd) {
    struct epoll_event interest = {.events = EPOLLIN, .data.fd = fd};
    if (epoll_ctl(loop, EPOLL_CTL_ADD, fd, &interest) != 0) fail("epoll_ctl");
}

static int listen_at(const char *path) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path) {
        fprintf(stderr, "floor: the socket path is longer than %zu bytes: %s\n", sizeof address.sun_path - 1, path);
        exit(2);
    }
    strcpy(address.sun_path, path);
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (listener < 0) fail("socket");
    if (bind(listener, (struct sockaddr *)&address, sizeof address) != 0) fail(path);
    if (listen(listener, BACKLOG) != 0) fail("listen");
    return listener;
}

int main(int argc, char **argv) {
    if (argc < 2 || argc > 3) {
        fprintf(stderr, "usage: floor SOCKET [JOURNAL]\n");
        return 2;
    }
    if (argc == 3 && (journal = open(argv[2], O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600)) < 0) fail(argv[2]);
    loop = epoll_create1(EPOLL_CLOEXEC);
    if (loop < 0) fail("epoll_create1");
    int listener = listen_at(argv[1]);
    watch(listener);

    set_reply("20", 2);

    for (struct epoll_event events[MAX_EVENTS];;) {
        int ready = epoll_wait(loop, events, MAX_EVENTS, -1);
        if (ready < 0 && errno != EINTR) fail("epoll_wait");
        for (int i = 0; i < ready && journal >= 0; i++) {
            int fd = events[i].data.fd;
            if (fd == listener) continue;
            size_t count = receive(fd);
            add_to_record(count);
            keep(fd, input, count);
        }
        commit();
        for (int i = 0; i < ready; i++) {
            int fd = events[i].data.fd;
            if (fd != listener) {
                size_t count = clients[fd].partial_bytes;
                if (journal < 0) {
                    count = receive(fd);
                } else {
                    if (count > 0) memcpy(input, clients[fd].partial, count);
                }
                if (!answer(fd, count)) drop(fd);
                continue;
            }
            for (int accepted; (accepted = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) >= 0;) {
                if (accepted >= MAX_DESCRIPTORS) {
                    close(accepted);
                    continue;
                }
                clients[accepted] = (struct client){0};
                if (accepted > highest) highest = accepted;
                watch(accepted);
            }
        }
    }
}
