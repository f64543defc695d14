/// The system's Nettle (lysator.liu.se/~nisse/nettle).
#pragma once

#include <nettle/sha2.h>
