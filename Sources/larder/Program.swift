import LarderCommand

/// The command line client; all of it is in `LarderCommand`.
@main
enum Program {
    static func main() { CommandEntry.main() }
}
