#pragma once
#include <stddef.h>

/// The content of Protocol/openrpc.json.
const unsigned char *larder_openrpc(void);
/// The size of the content of Protocol/openrpc.json in bytes.
size_t larder_openrpc_size(void);
