/// The system's PCRE2 for UTF-8 (pcre.org).
#pragma once

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
