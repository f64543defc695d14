import Foundation
import TestSupport
import Testing

extension Integration {
    /// Runs the template and the command of `contrib/guides/render-nginx.md` with nginx.
    @Suite("Guide to nginx (render-nginx.md)")
    struct NginxRecipeTests {
        private let guide: String

        init() throws {
            let file = Checkout.root.appending(path: "contrib/guides/render-nginx.md")
            guide = try String(contentsOf: file, encoding: .utf8)
        }

        /// Returns the first code block of the guide in a language.
        private func block(_ language: String) throws -> String {
            let rest = try require(guide.components(separatedBy: "```\(language)\n").dropFirst().first, language)
            return try require(rest.components(separatedBy: "```").first, language)
        }

        /// Returns the shell command of the guide, with its paths replaced by those of the test.
        private func command(in directory: String) throws -> String {
            let nginx = "nginx -p \(directory) -c nginx.conf -e stderr"
            return try block("sh").replacing("\\\n", with: " ")
                .replacing("nginx -t", with: "\(nginx) -t -q").replacing(
                    "systemctl reload nginx", with: "\(nginx) -s reload"
                )
                .replacing("/etc/larder/templates", with: directory).replacing("/etc/nginx", with: directory)
                .replacing("larder render", with: "'\(try Products.commandLine)' render")
        }

        private func render(_ home: AgentHome) throws -> Command {
            try Command.run(
                "/bin/sh", ["-c", command(in: home.directory)],
                environment: home.clientEnvironment.merging(["PATH": "/usr/sbin:/usr/bin:/sbin:/bin"]) { $1 },
                directory: home.directory)
        }

        /// Polls nginx until it serves a version, because nginx reloads asynchronously: the reload command ends first.
        /// Before the first reload, nginx does not listen on the port.
        private func wait(for version: String, at port: Int) throws {
            let script = """
                import time, urllib.request
                def version():
                    try: return urllib.request.urlopen("http://127.0.0.1:\(port)/version").read().decode()
                    except OSError: return None
                while version() != "\(version)\\n": time.sleep(0.02)
                """
            #expect(try Command.run("python3", ["-c", script]).end == .exit(0))
        }

        @Test("a file that nginx rejects is replaced by the previous file, and nginx serves the next valid file")
        func recovery() throws {
            try AgentHome.with(starting: true) { home in
                try home.makeDirectory("conf.d")
                try home.write("shop.conf.mustache", block("mustache"))
                let installed = home.directory + "/conf.d/shop.conf"
                func content() throws -> String { try String(contentsOfFile: installed, encoding: .utf8) }
                let (nginx, _) = try Nginx.start(in: home.directory) { port in
                    "daemon off; pid nginx.pid; error_log stderr notice; events {}\n"
                        + "http { server { listen 127.0.0.1:\(port); } include conf.d/*.conf; }"
                }
                let port = try LoopbackPort.free()
                try home.larder(
                    "set", "shop", #"{"backends": ["127.0.0.1:1"], "listen": "127.0.0.1:\#(port)", "version": 1}"#)
                let first = try render(home)
                #expect(first.end == .exit(0), "\(first.log)")
                try wait(for: "1", at: port)

                let good = try content()
                try home.larder("set", "shop.version", "2")
                try home.larder("set", "shop.listen", "127.0.0.1:eighty")
                let refused = try render(home)
                #expect(refused.end == .exit(7))
                #expect(refused.log.contains("invalid port in \"127.0.0.1:eighty\""), "\(refused.log)")
                #expect(refused.log.hasSuffix("the previous \(installed) has been restored"))
                #expect(try content() == good)
                try wait(for: "1", at: port)

                // An invalid file that was installed without a check does not prevent the next update.
                try home.write("conf.d/shop.conf", "server { listen nonsense")
                try home.larder("set", "shop.version", "3")
                try home.larder("set", "shop.listen", "127.0.0.1:\(port)")
                let corrected = try render(home)
                #expect(corrected.end == .exit(0), "\(corrected.log)")
                try wait(for: "3", at: port)

                // nginx is not running, so the reload fails.
                nginx.signal(SIGTERM)
                _ = try nginx.waitForEnd()
                let before = try content()
                try home.larder("set", "shop.version", "4")
                let failed = try render(home)
                #expect(failed.end == .exit(1))
                #expect(failed.log.hasSuffix("the previous \(installed) has been restored"), "\(failed.log)")
                #expect(try content() == before)
                #expect(
                    try FileManager.default.contentsOfDirectory(atPath: home.directory + "/conf.d") == ["shop.conf"])
            }
        }
    }
}
