/// The version of this program and library, by the rules of semver.org.
public let larderVersion = "0.1.0"

/// The version of the protocol that this library speaks; see `Protocol/README.md` for what may change within one.
public let larderProtocolVersion = 1
