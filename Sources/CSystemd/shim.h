/// libsystemd's headers for services: sd-daemon(3) and sd-journal(3).
#pragma once

#include <systemd/sd-daemon.h>

// Without this sd_journal_sendv is a macro that records this header's place as the origin of every entry, and macros
// with arguments do not reach Swift.
#define SD_JOURNAL_SUPPRESS_LOCATION
#include <systemd/sd-journal.h>
