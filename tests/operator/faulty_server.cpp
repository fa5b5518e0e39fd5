#include "operator/faulty_server.h"

#include <fmt/format.h>
#include <lockstep/base/error.h>
#include <lockstep/base/text.h>
#include <lockstep/net/http_client.h>

#include <fstream>

#include "operator/kube_server.h"

namespace lockstep::test {
namespace {

using namespace std::chrono_literals;

std::string field(const std::string& header, const std::string& name) {
  const auto at = header.find("\r\n" + name + ": ");
  if (at == std::string::npos) return "";
  const auto begin = at + name.size() + 4;
  return header.substr(begin, header.find("\r\n", begin) - begin);
}

/// nullopt at the end of the connection. `rest`: bytes behind the last request.
std::optional<FaultyServer::Request> read_request(int connection, std::string& rest) {
  std::size_t end;
  while ((end = rest.find("\r\n\r\n")) == std::string::npos) {
    const auto more = read_some(connection);
    if (more.empty()) return std::nullopt;
    rest += more;
  }
  const std::string header = rest.substr(0, end + 2);
  rest.erase(0, end + 4);
  const auto length = static_cast<std::size_t>(parse_integer(field(header, "Content-Length")).value_or(0));
  while (rest.size() < length) {
    const auto more = read_some(connection);
    if (more.empty()) return std::nullopt;
    rest += more;
  }
  FaultyServer::Request request;
  const auto space = header.find(' ');
  request.method = header.substr(0, space);
  request.target = header.substr(space + 1, header.find(' ', space + 1) - space - 1);
  request.type = field(header, "Content-Type");
  request.body = rest.substr(0, length);
  rest.erase(0, length);
  return request;
}

net::HttpAsk ask_of(const FaultyServer::Request& request, const kube::Access& access) {
  return {request.method, request.target, request.type, request.body, {{"Authorization", "Bearer " + access.token}}};
}

bool respond(int connection, unsigned status, const std::string& body) {
  return write_all(
      connection, fmt::format("HTTP/1.1 {} X\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{}", status,
                              body.size(), body));
}

struct Cut {};

}  // namespace

FaultyServer::FaultyServer(std::function<Fault(const Request&)> choose)
    : choose_(std::move(choose)), server_([this](int connection) { serve(connection); }) {
  file_ = std::filesystem::path(KubeServer::get().variable("KUBE_FOLDER")) /
          fmt::format("faulty-{}.kubeconfig", server_.port());
  std::ofstream(file_) << fmt::format(
      "current-context: c\ncontexts: [{{name: c, context: {{cluster: k, user: u}}}}]\nusers: [{{name: u, user: "
      "{{}}}}]\n"
      "clusters: [{{name: k, cluster: {{server: 'http://127.0.0.1:{}'}}}}]\n",
      server_.port());
}

FaultyServer::~FaultyServer() {
  const std::lock_guard lock(mutex_);
  ending_ = true;
  for (net::HttpClient* client : clients_) client->cancel();
}

std::filesystem::path FaultyServer::kubeconfig() const { return file_; }

void FaultyServer::serve(int connection) {
  std::string rest;
  while (auto request = read_request(connection, rest)) {
    if (!request->is_watch()) request->number = ++requests_;
    if (!pass_on(connection, *request)) return;
  }
}

bool FaultyServer::pass_on(int connection, const Request& request) {
  const Fault fault = choose_(request);
  if (fault.before) fault.before();
  if (fault.lose_request) return false;
  if (fault.status != 0) {
    return respond(connection, fault.status,
                   fmt::format(R"({{"kind":"Status","code":{},"reason":"Injected","message":"a fault for a test"}})",
                               fault.status));
  }
  const auto access = KubeServer::get().access();
  net::HttpClient client(access.server, access.tls, std::size_t{64} << 20);
  {
    const std::lock_guard lock(mutex_);
    if (ending_) return false;
    clients_.insert(&client);
  }
  const auto forget = [&](void*) {
    const std::lock_guard lock(mutex_);
    clients_.erase(&client);
  };
  const std::unique_ptr<void, decltype(forget)> registered(&client, forget);
  try {
    if (!request.is_watch()) {
      const auto response = client.send(ask_of(request, access), std::chrono::steady_clock::now() + 60s);
      if (fault.after) fault.after();
      if (fault.lose_answer) return false;
      return respond(connection, response.status, response.body);
    }
    std::string line;
    int sent = 0;
    bool began = false;
    const auto send = [&](std::string text) {
      if (!began && !write_all(connection, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")) throw Cut();
      began = true;
      const bool cut = fault.cut_after >= 0 && sent + static_cast<int>(text.size()) > fault.cut_after;
      if (cut) text.resize(static_cast<std::size_t>(fault.cut_after - sent));
      sent += static_cast<int>(text.size());
      if (!text.empty() && !write_all(connection, fmt::format("{:x}\r\n{}\r\n", text.size(), text))) throw Cut();
      if (cut) throw Cut();
    };
    const auto response =
        client.stream(ask_of(request, access), std::chrono::steady_clock::now() + 600s, [&](std::string_view piece) {
          line += piece;
          for (std::size_t end; (end = line.find('\n')) != std::string::npos; line.erase(0, end + 1)) {
            for (int time = 0; time < (fault.repeat_events ? 2 : 1); ++time) send(line.substr(0, end + 1));
          }
        });
    if (response.status != 200) return respond(connection, response.status, response.body);
    if (!began) return write_all(connection, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    return write_all(connection, "0\r\n\r\n");
  } catch (const Error&) {
    return false;  // the real server is away
  } catch (const Cut&) {
    return false;
  }
}

}  // namespace lockstep::test
