import Foundation

/// Certificates made by openssl for one test.
enum Certificates {
    struct Failed: Error, CustomStringConvertible { let description: String }

    /// Makes an authority: `NAME.pem` and `NAME.key`.
    static func makeAuthority(_ name: String, in directory: URL) throws {
        try openssl(
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -keyout \(name).key -out \(name).pem",
            ["-subj", "/CN=\(name) of a Larder test"], in: directory)
    }

    /// Makes a certificate for 127.0.0.1, `NAME.pem` and `NAME.key`, signed by an authority.
    static func make(_ name: String, by authority: String, in directory: URL) throws {
        try openssl(
            "req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout \(name).key -out \(name).csr",
            ["-subj", "/CN=\(name)"], in: directory)
        try "subjectAltName=IP:127.0.0.1\n".write(
            to: directory.appending(path: "names"), atomically: true, encoding: .utf8)
        try openssl(
            "x509 -req -in \(name).csr -CA \(authority).pem -CAkey \(authority).key -CAcreateserial -days 2 "
                + "-extfile names -out \(name).pem", [], in: directory)
    }

    private static func openssl(_ words: String, _ more: [String], in directory: URL) throws {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = ["openssl"] + words.split(separator: " ").map(String.init) + more
        process.currentDirectoryURL = directory
        process.standardError = FileHandle.nullDevice
        try process.run()
        process.waitUntilExit()
        guard process.terminationStatus == 0 else { throw Failed(description: "openssl \(words) failed") }
    }
}
