import Foundation
import LarderJSON
import TestSupport
import Testing

/// A way in which people and programs change a file, as a shell script: `$f` is the file, `$n` what it is to say.
private struct Edit: Sendable {
    let name: String
    let script: String

    init(_ name: String, _ script: String) { (self.name, self.script) = (name, script) }

    static let all = [
        Edit("a first file", "say > $f"),
        Edit("written in place", "say > $f"),
        Edit("truncated, written in pieces", ": > $f; pause; printf '{\"n\":' >> $f; pause; echo \"$n}\" >> $f"),
        Edit("vim: the old one aside, a new one in its place", "cp $f .swp; mv $f $f~; say > $f; rm $f~ .swp"),
        Edit("vim with backupcopy", "cp $f $f~; say > $f; rm $f~"),
        Edit("Emacs: a new one, renamed over it", "say > '#new#'; mv '#new#' $f"),
        Edit("sed -i", "sed -i \"s/:[0-9]*/:$n/\" $f"),
        Edit("copied over", "say > other; cp other $f"),
        Edit("copied over, removed first", "say > other; cp --remove-destination other $f"),
        Edit("install", "say > other; install -m 640 other $f"),
        Edit("removed, and made again later", "rm $f; pause; say > $f"),
        Edit("renamed away, and another one back", "mv $f away; pause; say > away; mv away $f"),
        Edit("written through another hard link", "ln -f $f hard; say > hard"),
        Edit("a link in its place", "say > target; ln -sfn target $f"),
        Edit("written behind the link", "say > target"),
        Edit("replaced behind the link", "say > new; mv new target"),
        Edit("a chain of links", "mkdir -p d; say > d/data; ln -sfn d/data b; ln -sfn b a; ln -sfn a $f"),
        Edit("written behind the chain", "say > d/data"),
        Edit("another middle of the chain", "say > elsewhere; ln -sfn elsewhere new; mv -T new b"),
        Edit("another end of the chain", "say > new; mv new elsewhere"),
        Edit("a broken chain, mended", "rm b; pause; say > end; ln -s end b"),
        Edit("a directory in its place", "rm $f; mkdir $f; say > $f/1.json"),
        Edit("a second file that wins", "say > $f/2.json"),
        Edit("a third file, renamed into it", "say > new; mv new $f/3.json"),
        Edit("the winner removed", "say > $f/2.json; rm $f/3.json"),
        Edit("the directory exchanged", "mkdir e; say > e/1.json; mv $f old; pause; mv e $f"),
        Edit("the directory gone and back", "mv $f away.d; pause; say > away.d/1.json; mv away.d $f"),
        Edit("a file again", "rm -r $f; say > new; mv new $f"),
        Edit("everything around it exchanged", "cd ..; cp -r m x; f=x/c.json; say > $f; mv m y; mv x m; rm -r y"),
        Edit("everything around it gone and back", "cd ..; mv m y; pause; f=y/c.json; say > $f; mv y m"),
        Edit("permission lost and given back", "chmod 0 $f; pause; chmod 644 $f; say > $f"),
        Edit("permission lost above it", "chmod 0 .; pause; say > $f; chmod 755 ."),
    ]
}

extension Integration {
    @Suite("A file as the source, in the hands of editors")
    struct FileEditTests {
        @Test("whatever way it is changed, the agent says in the end what it says")
        func edits() throws {
            try AgentHome.with(settings: "{ namespaces: { default: { remote: { file: { path: '@/m/c.json' } } } } }") {
                home in
                try home.makeDirectory("m")
                let client = try home.start().connect()
                try client.call("config.subscribe", ["n"])
                let words = "say() { echo \"{\\\"n\\\":$n}\"; }; pause() { sleep 0.05; };"
                for (number, edit) in Edit.all.enumerated() {
                    let script = "set -e; cd m; f=c.json; n=\(number + 1); \(words) \(edit.script)"
                    // Whoever is not root cannot go into a directory that nobody may search.
                    if getuid() != 0, edit.script.hasPrefix("chmod 0 .") { continue }
                    let result = try Command.run("sh", ["-c", script], directory: home.directory)
                    #expect(result.end == .exit(0), "\(edit.name): \(result.log)")
                    do {
                        try client.events(until: .int(number + 1))
                    } catch {
                        throw HarnessError("\(edit.name): \(error)")
                    }
                }
                try client.status { $0["state"] == "fresh" && $0["lastError"]?.isNull == true }
            }
        }

        @Test(
            "a file that may not be read any more leaves what was served, until it may be read again",
            .enabled(if: getuid() != 0))
        func permission() throws {
            try AgentHome.with(settings: "{ namespaces: { default: { remote: { file: { path: '@/m/c.json' } } } } }") {
                home in
                try home.makeDirectory("m")
                try home.write("m/c.json", #"{"n":0}"#)
                let client = try home.start().connect()
                try client.call("config.subscribe", ["n"])
                try client.events(until: 0)
                for (number, name) in ["m/c.json", "m"].enumerated() {
                    let path = home.directory + "/" + name
                    chmod(path, 0)
                    let status = try client.status { $0["state"] == "stale" }
                    #expect(status["lastError"]?["message"]?.string?.contains("let the agent's user read it") == true)
                    #expect(try client.call("config.get", ["n"])["value"]?.int == number)
                    chmod(path, 0o755)
                    try client.status { $0["state"] == "fresh" }
                    try home.write("m/c.json", "{\"n\":\(number + 1)}")
                    try client.events(until: .int(number + 1))
                }
            }
        }
    }
}
