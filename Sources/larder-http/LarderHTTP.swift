import LarderHTTPGateway

@main
enum LarderHTTP {
    static func main() { GatewayCommand.main(Array(CommandLine.arguments.dropFirst())) }
}
