#include <lockstep/comm/doctor/notes.h>

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

namespace lockstep::doctor {

using std::chrono::milliseconds;

Notes::Notes(detail::StorePtr store, std::string corner) : store_(std::move(store)), corner_(std::move(corner)) {}

std::string Notes::key(std::string_view what, int rank) const { return fmt::format("{}/{}/{}", corner_, what, rank); }

void Notes::put(std::string_view what, int rank, const nlohmann::json& value) {
  store_->set(key(what, rank), detail::to_bytes(value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)));
}

// Polls, as a store of libtorch 1.13 cannot take back a wait that timed out.
std::optional<nlohmann::json> Notes::take(std::string_view what, int rank, const WaitLimit& wait_limit) {
  const auto where = key(what, rank);
  auto pause = milliseconds(2);
  while (!store_->check({where})) {
    if (wait_limit.over()) return std::nullopt;
    std::this_thread::sleep_for(std::min(pause, wait_limit.slice()));
    pause = std::min(pause * 2, milliseconds(100));
  }
  return nlohmann::json::parse(detail::to_text(store_->get(where)));
}

}  // namespace lockstep::doctor
