#include "CProtocolDescription.h"

// #embed (C23) includes the file at build time, so no copy of it can become outdated.
static const unsigned char openrpc[] = {
#embed "../../Protocol/openrpc.json"
};

const unsigned char *larder_openrpc(void) { return openrpc; }

size_t larder_openrpc_size(void) { return sizeof openrpc; }
