import Foundation
import LarderJSON
import TestSupport
import Testing

/// A way to change a file, as a shell script. `$f` is the file, `say` prints the document with the new value `$n`, and
/// `pause` sleeps for 50 ms. Each script starts with the files that the previous script left.
private struct Edit: Sendable {
    let name: String
    let script: String

    init(_ name: String, _ script: String) { (self.name, self.script) = (name, script) }

    static let all = [
        Edit("the first file", "say > $f"),
        Edit("written in place", "say > $f"),
        Edit("truncated, written in pieces", ": > $f; pause; printf '{\"n\":' >> $f; pause; echo \"$n}\" >> $f"),
        Edit("vim: the old file renamed, a new one written", "cp $f .swp; mv $f $f~; say > $f; rm $f~ .swp"),
        Edit("vim with backupcopy", "cp $f $f~; say > $f; rm $f~"),
        Edit("Emacs: a new file, renamed over the old one", "say > '#new#'; mv '#new#' $f"),
        Edit("sed -i", "sed -i \"s/:[0-9]*/:$n/\" $f"),
        Edit("copied over", "say > other; cp other $f"),
        Edit("copied over, removed first", "say > other; cp --remove-destination other $f"),
        Edit("install", "say > other; install -m 640 other $f"),
        Edit("removed, and created again later", "rm $f; pause; say > $f"),
        Edit("renamed, changed, and renamed back", "mv $f away; pause; say > away; mv away $f"),
        Edit("written through another hard link", "ln -f $f hard; say > hard"),
        Edit("replaced by a link", "say > target; ln -sfn target $f"),
        Edit("the target of the link written", "say > target"),
        Edit("the target of the link replaced", "say > new; mv new target"),
        Edit("a chain of links", "mkdir -p d; say > d/data; ln -sfn d/data b; ln -sfn b a; ln -sfn a $f"),
        Edit("the target of the chain written", "say > d/data"),
        Edit("the middle of the chain replaced", "say > elsewhere; ln -sfn elsewhere new; mv -T new b"),
        Edit("the target of the chain replaced", "say > new; mv new elsewhere"),
        Edit("a broken chain, repaired", "rm b; pause; say > end; ln -s end b"),
        Edit("replaced by a directory", "rm $f; mkdir $f; say > $f/1.json"),
        Edit("a second file that takes precedence", "say > $f/2.json"),
        Edit("a third file, renamed into the directory", "say > new; mv new $f/3.json"),
        Edit("the third file removed", "say > $f/2.json; rm $f/3.json"),
        Edit("the directory replaced", "mkdir e; say > e/1.json; mv $f old; pause; mv e $f"),
        Edit("the directory renamed and renamed back", "mv $f away.d; pause; say > away.d/1.json; mv away.d $f"),
        Edit("replaced by a file", "rm -r $f; say > new; mv new $f"),
        Edit("the parent directory replaced", "cd ..; cp -r m x; f=x/c.json; say > $f; mv m y; mv x m; rm -r y"),
        Edit("the parent directory renamed and renamed back", "cd ..; mv m y; pause; f=y/c.json; say > $f; mv y m"),
        Edit("permission removed and restored", "chmod 0 $f; pause; chmod 644 $f; say > $f"),
        Edit("permission of the parent directory removed and restored", "chmod 0 .; pause; say > $f; chmod 755 ."),
    ]
}

extension Integration {
    @Suite("Edits of a file source")
    struct FileEditTests {
        @Test("the agent publishes the file's final content, however it was edited")
        func edits() throws {
            try AgentHome.with(settings: "{ namespaces: { default: { remote: { file: { path: '@/m/c.json' } } } } }") {
                home in
                try home.makeDirectory("m")
                let client = try home.start().connect()
                try client.call("config.subscribe", ["n"])
                let functions = "say() { echo \"{\\\"n\\\":$n}\"; }; pause() { sleep 0.05; };"
                for (number, edit) in Edit.all.enumerated() {
                    let script = "set -e; cd m; f=c.json; n=\(number + 1); \(functions) \(edit.script)"
                    // Only root can enter a directory without permissions.
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

        @Test("while the file cannot be read, the last value is served, and the state is stale")
        func permission() throws {
            try AgentHome.with(settings: "{ namespaces: { default: { remote: { file: { path: '@/m/c.json' } } } } }") {
                home in
                try home.makeDirectory("m")
                try home.write("m/c.json", #"{"n":0}"#)
                let client = try home.startUnprivileged().connect()
                try client.call("config.subscribe", ["n"])
                try client.events(until: 0)
                for (number, name) in ["m/c.json", "m"].enumerated() {
                    let path = home.directory + "/" + name
                    chmod(path, 0)
                    let status = try client.status { $0["state"] == "stale" }
                    #expect(
                        status["lastError"]?["message"]?.string?.contains("allow the agent's user to read it") == true)
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
