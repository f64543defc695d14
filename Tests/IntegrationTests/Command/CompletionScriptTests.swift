import ArgumentParser
import Foundation
import LarderJSON
import TestSupport
import Testing

@testable import LarderCommand

@Suite("Completion of all arguments")
struct ArgumentCompletionTests {
    /// Placeholders of values that only the user knows.
    private static let free = [
        "time", "number", "text", "reason", "epoch", "url", "key", "value", "prefix", "id", "mode", "digest", "command",
        "subcommands", "params", "sha256", "object",
    ]

    /// The positional arguments and options of all commands.
    private static func arguments() throws -> [(command: String, argument: JSONValue)] {
        let root = try JSONValue(parsing: Larder._dumpHelp())["command"]
        var commands = [try #require(root)]
        var arguments: [(command: String, argument: JSONValue)] = []
        while let command = commands.popLast() {
            commands += command["subcommands"].map { Array($0.elements) } ?? []
            let name = command["commandName"]?.string ?? "?"
            if name == "help" { continue }
            for argument in Array(command["arguments"]?.elements ?? JSONValue.array([]).elements)
            where argument["kind"] != "flag" {
                arguments.append((name, argument))
            }
        }
        return arguments
    }

    @Test("each argument has candidates, unless only the user knows its value")
    func everyArgument() throws {
        let arguments = try Self.arguments()
        for (command, argument) in arguments {
            let name = argument["valueName"]?.string ?? ""
            #expect(
                argument["completionKind"] != nil || argument["allValues"] != nil || Self.free.contains(name),
                "\(command): \(name)")
        }
        #expect(arguments.count > 100)
    }

    @Test("the scripts of zsh and fish complete the names of files for each argument that is a file")
    func files() throws {
        let kinds = try Self.arguments().compactMap { $0.argument["completionKind"] }
        let (files, directories) = (kinds.count { $0["file"] != nil }, kinds.count { $0["directory"] != nil })
        #expect(files > 10)
        let zsh = Larder.completionScript(for: .zsh).split(separator: "\n")
        #expect(zsh.count { $0.contains(":_files") } == files + directories)
        let fish = Larder.completionScript(for: .fish).split(separator: "\n")
        #expect(fish.count { $0.hasSuffix(" -F") || $0.hasSuffix(" -rF") } == files)
    }

    @Test("the command of exec is completed with programs first, then with file names")
    func programs() throws {
        try withTemporaryDirectory { directory in
            for name in ["one.txt", "two words", ".hidden"] {
                try "".write(toFile: directory + "/" + name, atomically: true, encoding: .utf8)
            }
            try FileManager.default.createDirectory(atPath: directory + "/sub", withIntermediateDirectories: false)
            func candidates(_ words: String...) -> [String] {
                ProgramCompletion.candidates(
                    CompletionLine(["larder", "exec"] + words, words.count + 1, words.last ?? ""))
            }
            #expect(candidates("--", "prin").contains("printenv"))
            #expect(candidates("--", "printenv", directory + "/") == ["one.txt", "sub/"].map { directory + "/" + $0 })
            #expect(candidates("--", directory + "/o") == [directory + "/one.txt"])
            #expect(candidates("--", "cat", directory + "/.h") == [directory + "/.hidden"])
            #expect(candidates("--", "cat", "/none/x") == [])
            #expect(candidates("prin") == [])
        }
    }
}

extension Integration {
    @Suite("Completion in bash")
    struct BashCompletionTests {
        /// Returns the candidates of bash for the last word of a command line.
        private func complete(_ home: AgentHome, _ line: String) throws -> [String] {
            let script = """
                . ./completion
                read -ra COMP_WORDS <<<"$1"
                case $1 in *" ") COMP_WORDS+=('') ;; esac
                COMP_CWORD=$((${#COMP_WORDS[@]} - 1)) COMP_LINE=$1 COMP_POINT=${#1}
                _larder larder "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
                printf '%s\\n' "${COMPREPLY[@]}"
                """
            let larder = try Products.commandLine
            let bin = larder[..<(larder.lastIndex(of: "/") ?? larder.startIndex)]
            let path = "\(bin):/usr/bin:/bin"
            let end = try Command.run(
                "/bin/bash", ["-c", script, "bash", line],
                environment: home.clientEnvironment.merging(["PATH": path]) { $1 }, directory: home.directory)
            #expect(end.log.isEmpty, "\(line): \(end.log)")
            return end.output.filter { !$0.isEmpty }.sorted()
        }

        @Test("files, namespaces, revisions, words and programs are completed")
        func lines() throws {
            try AgentHome.with(settings: "{ namespaces: { shop: {}, web: {} } }", starting: true) { home in
                try home.write("completion", home.larder("--generate-completion-script", "bash").text)
                try home.write("file.json", "{}")
                try home.larder("set", "a", "1", "-n", "shop")
                try home.larder("set", "a", "2", "-n", "shop")
                for words in [
                    "push", "apply", "validate", "backup", "restore", "render", "render t", "image put",
                    "image prefetch",
                    "set k --value-from", "doctor --settings", "image get u -o", "validate --schema",
                ] {
                    #expect(try complete(home, "larder \(words) fi") == ["file.json"], "\(words)")
                }
                #expect(try complete(home, "larder get -n ") == ["default", "shop", "web"])
                #expect(try complete(home, "larder status --namespace s") == ["shop"])
                #expect(try complete(home, "larder image get --policy cache") == ["cacheFirst", "cacheOnly"])
                #expect(try complete(home, "larder rollback --hold ") == ["untilNewer", "untilReleased"])
                #expect(try complete(home, "larder call config.op") == ["config.open"])
                #expect(try complete(home, "larder exec --watch --signal US") == ["USR1", "USR2"])
                let revisions = try complete(home, "larder rollback -n shop ")
                #expect(revisions.count >= 2)
                #expect(try complete(home, "larder diff -n shop ") == revisions)
                #expect(try complete(home, "larder history -n shop --pin ") == revisions)
                #expect(try complete(home, "larder exec -- printen") == ["printenv"])
                #expect(try complete(home, "larder exec -- cat fi") == ["file.json"])
            }
        }
    }
}
