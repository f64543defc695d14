/// libsystemd's headers for services: sd-daemon(3), sd-id128(3) and sd-journal(3).
#pragma once

#include <systemd/sd-daemon.h>
#include <systemd/sd-id128.h>

// Without this definition, sd_journal_sendv is a macro that records the location of its caller. Swift cannot import
// macros with arguments.
#define SD_JOURNAL_SUPPRESS_LOCATION
#include <systemd/sd-journal.h>
