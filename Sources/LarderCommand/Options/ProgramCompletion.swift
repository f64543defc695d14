import ArgumentParser
import Glibc
import LarderPlatform

extension CompletionKind {
    /// Completes a program after `--` or `--exec`, and file names as its arguments.
    static var program: CompletionKind {
        .custom { words, index, prefix in ProgramCompletion.candidates(CompletionLine(words, index, prefix)) }
    }

    /// Completes the name of a user.
    static var user: CompletionKind { .shellCommand("getent passwd | cut -d: -f1") }
}

/// The candidates for the command of `larder exec` and of `larder image get --exec`.
enum ProgramCompletion {
    static func candidates(_ line: CompletionLine) -> [String] {
        guard var start = line.words.firstIndex(where: { $0 == "--" || $0 == "--exec" }) else { return [] }
        if line.words[start] == "--exec", line.words.dropFirst(start + 1).first == "--" { start += 1 }
        let isProgram = start == line.words.endIndex - 1
        return isProgram && !line.typed.contains("/") ? programs(line.typed) : files(line.typed)
    }

    /// The programs in the directories of `PATH` whose names begin with a text.
    private static func programs(_ typed: String) -> [String] {
        let path = getenv("PATH").map { String(cString: $0) } ?? ""
        var found: Set<String> = []
        for directory in path.split(separator: ":") {
            for name in names(in: String(directory), typed) where access("\(directory)/\(name)", X_OK) == 0 {
                if !isDirectory("\(directory)/\(name)") { found.insert(name) }
            }
        }
        return found.sorted()
    }

    /// The files whose paths begin with a text. Directories end with a slash.
    private static func files(_ typed: String) -> [String] {
        let directory = typed.lastIndex(of: "/").map { String(typed[...$0]) } ?? ""
        return names(in: directory.isEmpty ? "." : directory, String(typed.dropFirst(directory.count))).map { name in
            directory + name + (isDirectory(directory + name) ? "/" : "")
        }
    }

    /// The names in a directory that begin with a text, in order. Hidden names are left out unless the text begins with a
    /// dot.
    private static func names(in directory: String, _ typed: String) -> [String] {
        let descriptor = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard descriptor >= 0, let names = try? DirectoryListing.names(closing: descriptor) else { return [] }
        return names.compactMap { String(validating: $0, as: UTF8.self) }.filter { name in
            name.hasPrefix(typed) && (typed.hasPrefix(".") || !name.hasPrefix(".")) && name.isCandidate
        }.sorted()
    }

    private static func isDirectory(_ path: String) -> Bool {
        var status = stat()
        return stat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFDIR
    }
}
