import LarderImages
import LarderProtocol

// The images that an origin gives to a credential are not for everybody who has the right to images.

extension PeerCredentials {
    /// Whether the peer may have what an origin gives for the credential of the settings: root, who runs the agent, and
    /// whom the settings name.
    func mayHaveImages(of origin: ImageOrigin) -> Bool {
        isTrusted || origin.users.contains(UInt32(clamping: uid)) || origin.groups.contains(UInt32(clamping: gid))
            || groups.contains { origin.groups.contains($0) }
    }
}

extension ImageService {
    /// Whether a peer may have the images of a URL.
    func allows(_ peer: PeerCredentials, _ url: String) -> Bool {
        restriction(of: url).map(peer.mayHaveImages) ?? true
    }

    /// Refuses a peer that may not have the images of a URL.
    /// - Throws: `denied`
    func check(_ peer: PeerCredentials, _ url: String) throws(WireError) {
        if let origin = restriction(of: url), !peer.mayHaveImages(of: origin) { throw Self.denied(origin) }
    }

    /// What a peer is told that may not have an origin's images.
    static func denied(_ origin: ImageOrigin) -> WireError {
        WireError(
            .denied,
            "the agent shows \(origin.name) a credential that is not meant for everybody; have your user or one of your "
                + "groups named in images.origins[\"\(origin.name)\"] of the settings")
    }
}
