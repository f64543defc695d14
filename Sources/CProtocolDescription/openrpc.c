#include "CProtocolDescription.h"

// #embed (C23) puts the file into the program as it is: no copy of it can fall behind.
static const unsigned char openrpc[] = {
#embed "../../Protocol/openrpc.json"
};

const unsigned char *larder_openrpc(void) { return openrpc; }

size_t larder_openrpc_size(void) { return sizeof openrpc; }
