#pragma once
#include <stddef.h>

/// The bytes of Protocol/openrpc.json.
const unsigned char *larder_openrpc(void);
/// How many they are.
size_t larder_openrpc_size(void);
