/// The version of this program and library (semver.org).
package let larderVersion = "0.1.0"

/// The version of the protocol that this library implements. `Protocol/README.md` defines which changes are possible
/// without a new version.
package let larderProtocolVersion = 1
