import Foundation

/// A real nginx on 127.0.0.1, as the user of the tests, in a directory of its own that it serves from.
final class Nginx {
    let directory: URL
    let port: Int
    private let process: Process

    struct Failed: Error, CustomStringConvertible { let description: String }

    /// Starts nginx with these lines inside its `server` block.
    ///
    /// - Parameter tls: whether to serve HTTPS with `cert.pem` and `key.pem` of the directory
    init(_ server: String = "", tls: Bool = false, prepare: (URL) throws -> Void = { _ in }) throws {
        directory = FileManager.default.temporaryDirectory.appending(path: "larder-nginx-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: directory.appending(path: "www"), withIntermediateDirectories: true)
        try prepare(directory)
        // nginx cannot listen on "any free port", and between finding one and using it another process may take it.
        for _ in 0..<10 {
            let port = try Self.freePort()
            try Self.configuration(directory.path, port, server, tls)
                .write(to: directory.appending(path: "nginx.conf"), atomically: true, encoding: .utf8)
            if let process = try Self.launch(directory) {
                self.process = process
                self.port = port
                return
            }
        }
        throw Failed(description: "nginx did not start; is nginx-light installed?")
    }

    deinit {
        // Not SIGTERM: a child inherits the signal mask of the thread that starts it, and the threads that run Swift
        // tasks block most signals.
        kill(process.processIdentifier, SIGKILL)
        try? FileManager.default.removeItem(at: directory)
    }

    func write(_ text: String, to name: String) throws {
        try Data(text.utf8).write(to: directory.appending(path: "www/" + name), options: .atomic)
    }

    /// Returns when nginx listens, or nothing if it ended instead.
    private static func launch(_ directory: URL) throws -> Process? {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = [
            "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "nginx", "-p", directory.path, "-c", "nginx.conf", "-e", "stderr",
        ]
        let pipe = Pipe()
        process.standardError = pipe
        try process.run()
        var log = ""
        while true {
            let data = pipe.fileHandleForReading.availableData
            if data.isEmpty { return nil }
            log += String(decoding: data, as: UTF8.self)
            // It says which event method it uses after its sockets are open.
            if log.contains("using the") { return process }
        }
    }

    private static func configuration(_ path: String, _ port: Int, _ server: String, _ tls: Bool) -> String {
        """
        daemon off; master_process off; pid nginx.pid; error_log stderr notice;
        events { worker_connections 64; }
        http {
            access_log off;
            client_body_temp_path tmp; proxy_temp_path tmp; fastcgi_temp_path tmp; uwsgi_temp_path tmp; scgi_temp_path tmp;
            types { application/json json; }
            server {
                listen 127.0.0.1:\(port)\(tls ? " ssl http2" : "");
                \(tls ? "ssl_certificate \(path)/cert.pem; ssl_certificate_key \(path)/key.pem;" : "")
                root \(path)/www;
                \(server)
            }
        }
        """
    }

    private static func freePort() throws -> Int {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        defer { close(descriptor) }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let result = withUnsafeMutablePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(descriptor, $0, length) == 0 ? getsockname(descriptor, $0, &length) : -1
            }
        }
        guard result == 0 else { throw Failed(description: "no free port: errno \(errno)") }
        return Int(UInt16(bigEndian: address.sin_port))
    }
}
