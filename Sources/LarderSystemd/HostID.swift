internal import CSystemd
internal import LarderEncoding

/// The identity of this host for servers. Servers must not learn the machine ID itself (machine-id(5)).
package enum HostID {
    /// The application ID of Larder, from which the ID of each host is derived. It never changes, because servers store the
    /// IDs of hosts.
    private static let application: [UInt8] = [
        0x48, 0x95, 0x9e, 0x5c, 0x10, 0x80, 0x44, 0x23, 0xaa, 0x2a, 0x31, 0xab, 0x3c, 0x98, 0x6a, 0x2d,
    ]

    /// The ID as 32 lower-case hexadecimal digits; nil if the host has no valid machine ID.
    package static var text: String? {
        var (application, host) = (sd_id128_t(), sd_id128_t())
        withUnsafeMutableBytes(of: &application) { $0.copyBytes(from: Self.application) }
        guard sd_id128_get_machine_app_specific(application, &host) >= 0 else { return nil }
        return withUnsafeBytes(of: host) { $0.hex }
    }
}
