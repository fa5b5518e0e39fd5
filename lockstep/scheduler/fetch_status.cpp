#include <lockstep/base/error.h>
#include <lockstep/net/channel.h>
#include <lockstep/net/name_lookup.h>
#include <lockstep/scheduler/fetch_status.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ssl/context.hpp>
#include <exception>

namespace lockstep::scheduler {
namespace {

net::Awaitable<net::HttpResponse> ask(boost::asio::io_context& context, const std::string& host, std::uint16_t port,
                                      boost::asio::ssl::context* tls) {
  const net::ChannelLimits limits;
  auto endpoints = net::look_up(host, port, std::chrono::steady_clock::now() + limits.step);
  net::Channel channel(boost::asio::ip::tcp::socket(context), limits);
  co_await channel.connect(std::move(endpoints));
  if (tls != nullptr) co_await channel.secure_as_client(*tls, host);
  co_return co_await channel.get(fmt::format("{}:{}", host, port), "/v1/status");
}

}  // namespace

std::string fetch_status(const std::string& host, std::uint16_t port,
                         const std::shared_ptr<boost::asio::ssl::context>& tls) {
  boost::asio::io_context context(1);
  net::HttpResponse response;
  std::exception_ptr trouble;
  boost::asio::co_spawn(context, ask(context, host, port, tls.get()),
                        [&](std::exception_ptr error, net::HttpResponse answer) {
                          trouble = std::move(error);
                          response = std::move(answer);
                        });
  context.run();
  try {
    if (trouble) std::rethrow_exception(trouble);
  } catch (const Error& error) {
    throw Error(error.kind() == ErrorKind::environment ? ErrorKind::io : error.kind(), "status",
                fmt::format("no answer from a scheduler at {}:{}: {}", host, port, error.message()));
  }
  if (response.status != 200) {
    fail(ErrorKind::io, "status", "whoever answers at {}:{} is no scheduler: status {} of HTTP", host, port,
         response.status);
  }
  return response.body;
}

}  // namespace lockstep::scheduler
