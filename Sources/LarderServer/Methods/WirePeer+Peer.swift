import LarderConfig
import LarderWire

extension WirePeer {
    /// The peer as provenance remembers it, in the protocol's words.
    init(_ peer: Peer) { self.init(pid: peer.pid, uid: peer.uid, command: peer.command) }
}
