import Foundation
import TestSupport

/// An nginx on 127.0.0.1 that serves images below several paths, and its access log.
///
/// - `/fresh/`: `max-age` of one day
/// - `/brief/`: `max-age` of 0 with `stale-if-error` of one day
/// - `/no-store/`: `no-store`
/// - `/slow/`: limited to 64 KiB per second
/// - `/gate/`: forwarded to another origin, without buffering
/// - `/svg/`: a different SVG image for every path
/// - `/redirect/`: a redirect to `/fresh/` on 127.0.0.1
final class ImageOrigin {
    /// A finished request in the access log.
    struct Request: Equatable {
        let path: String
        let status: Int
        /// The number of body bytes that were sent.
        let bytes: Int
        /// The value of the `Range` field of the request; empty if the request has none.
        let range: String
        /// Whether the whole response was sent.
        let isComplete: Bool
    }

    private(set) var port = 0
    private let directory: String
    private let gate: Int
    private var process: ChildProcess?

    /// Starts nginx with its files in `origin` below `parent`.
    /// - Parameter gate: The origin to which requests below `/gate/` are forwarded.
    init(below parent: String, gate: RawOrigin? = nil) throws {
        directory = parent + "/origin"
        self.gate = gate?.port ?? 9
        try FileManager.default.createDirectory(atPath: directory + "/www", withIntermediateDirectories: true)
        (process, port) = try Nginx.start(in: directory) { configuration(port: $0) }
    }

    /// Starts nginx again at the same port.
    func start() throws {
        process = try Nginx.start(in: directory, configuration: configuration(port: port))
    }

    /// Kills nginx. Connections are refused afterwards.
    func stop() {
        process?.kill()
        process = nil
    }

    func url(_ location: String, _ name: String) -> String { "http://127.0.0.1:\(port)/\(location)/\(name)" }

    /// Stores an image. All paths except `/gate/`, `/svg/` and `/redirect/` serve it.
    func put(_ image: TestImage, _ name: String) throws {
        try Data(image.bytes).write(to: URL(filePath: directory + "/www/" + name), options: .atomic)
    }

    // MARK: Access log

    /// The finished requests, in the order in which they ended.
    func requests() throws -> [Request] {
        let text = (try? String(contentsOfFile: directory + "/requests", encoding: .utf8)) ?? ""
        return try text.split(separator: "\n").map { line in
            let words = line.split(separator: " ", omittingEmptySubsequences: false).map(String.init)
            guard words.count == 5, let status = Int(words[1]), let bytes = Int(words[2]) else {
                throw HarnessError("invalid line in nginx's access log: \(line)")
            }
            return Request(
                path: words[0], status: status, bytes: bytes, range: words[3] == "-" ? "" : words[3],
                isComplete: words[4] == "OK")
        }
    }

    /// Waits until `condition` accepts the finished requests.
    @discardableResult
    func requests(_ purpose: String, until condition: ([Request]) -> Bool) throws -> [Request] {
        try retrying {
            let requests = try requests()
            if condition(requests) { return requests }
            throw HarnessError.timeout("\(purpose); nginx logged \(requests)")
        }
    }

    /// The number of requests by path.
    ///
    /// Sends a marker request first and waits until nginx has logged it. nginx has one thread, so by then it has also
    /// handled everything that was sent or closed before.
    func counts() throws -> [String: Int] {
        let marker = "/marker-\(UInt64.random(in: .min ... .max))"
        try PlainRequest.send(marker, port: port)
        let requests = try requests("the request for \(marker)") { $0.contains { $0.path == marker } }
        return requests.filter { !$0.path.hasPrefix("/marker-") }.reduce(into: [:]) { $0[$1.path, default: 0] += 1 }
    }

    // MARK: Settings

    private func configuration(port: Int) -> String {
        """
        daemon off; master_process off; pid nginx.pid; error_log stderr notice;
        events { worker_connections 2048; }
        http {
            log_format plain '$request_uri $status $body_bytes_sent $request_range $request_end';
            map $http_range $request_range { '' '-'; default $http_range; }
            map $request_completion $request_end { '' '-'; default $request_completion; }
            access_log \(directory)/requests plain;
            client_body_temp_path tmp; proxy_temp_path tmp; fastcgi_temp_path tmp; uwsgi_temp_path tmp;
            scgi_temp_path tmp;
            types { image/png png; image/jpeg jpeg; image/gif gif; image/webp webp; }
            server {
                listen 127.0.0.1:\(port);
                listen 127.0.0.2:\(port);
                keepalive_requests 1000000;
                location /fresh/ { alias \(directory)/www/; add_header Cache-Control 'max-age=86400'; }
                location /brief/ {
                    alias \(directory)/www/; add_header Cache-Control 'max-age=0, stale-if-error=86400';
                }
                location /no-store/ { alias \(directory)/www/; add_header Cache-Control 'no-store'; }
                location /slow/ { alias \(directory)/www/; limit_rate 64k; }
                location /gate/ { proxy_pass http://127.0.0.1:\(gate); proxy_buffering off; proxy_read_timeout 1h; }
                location /redirect/ { return 302 http://127.0.0.1:\(port)/fresh/; }
                location /svg/ {
                    default_type image/svg+xml; add_header Cache-Control 'max-age=86400';
                    return 200 '<svg xmlns="http://www.w3.org/2000/svg" width="1" height="1"><!-- $uri --></svg>';
                }
            }
        }
        """
    }
}

/// Sends HTTP requests without a client library.
enum PlainRequest {
    /// Sends a GET request to a port of 127.0.0.1 and returns the whole response.
    @discardableResult
    static func send(_ path: String, port: Int) throws -> String {
        let socket = try Descriptor.connected(toPort: port)
        let text = Array("GET \(path) HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n".utf8)
        guard Glibc.send(socket.number, text, text.count, CInt(MSG_NOSIGNAL)) == text.count else {
            throw HarnessError.system("send")
        }
        let reader = LineReader(socket)
        var response = ""
        while let line = try reader.line(until: .usual, "a response from port \(port)") {
            response += String(decoding: line, as: UTF8.self) + "\n"
        }
        return response
    }
}
