// A store client that follows the holder among the copies: it repeats a request there, and each change is applied once.
#include <lockstep/base/error.h>
#include <lockstep/base/log.h>
#include <lockstep/base/secret.h>
#include <lockstep/base/shown_text.h>
#include <lockstep/cluster/elastic/surviving_store.h>

#include <fmt/format.h>

#include <algorithm>
#include <thread>
#include <utility>

namespace lockstep::cluster::elastic {
namespace {

using store::MessageReader;
using store::MessageWriter;
using store::Operation;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kAttempt(1000);
constexpr milliseconds kPause(20);

}  // namespace

std::string name_of_store(const store::Address& address) {
  return "the store at " + host_and_port(address.host, address.port);
}

SurvivingStore::SurvivingStore(StoreCopy copy, store::Address own, store::Credentials credentials, milliseconds limit,
                               milliseconds notice)
    : copy_(std::move(copy)),
      own_(std::move(own)),
      credentials_(std::move(credentials)),
      limit_(limit),
      notice_(notice),
      id_(random_token()) {}

std::vector<std::optional<std::string>> SurvivingStore::get_all(const std::vector<std::string>& keys) {
  const std::lock_guard lock(mutex_);
  const auto result = ask(Operation::look_up, MessageWriter().keys(keys));
  MessageReader reader(result);
  std::vector<std::optional<std::string>> values;
  values.reserve(keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    values.push_back(reader.number() != 0 ? std::optional(std::string(reader.text())) : std::nullopt);
  }
  return values;
}

void SurvivingStore::set(const std::string& key, const std::string& value) {
  change(Operation::set, MessageWriter().text(key).text(value));
}

std::int64_t SurvivingStore::add(const std::string& key, std::int64_t delta) {
  const auto sum = change(Operation::add, MessageWriter().text(key).number(static_cast<std::uint64_t>(delta)));
  return static_cast<std::int64_t>(MessageReader(sum).number());
}

// To the store, no value and an empty value are the same, and it answers with the value that the key then holds.
bool SurvivingStore::replace(const std::string& key, const std::optional<std::string>& expected,
                             const std::string& value) {
  const auto fields = MessageWriter().text(key).text(expected.value_or("")).text(value);
  return MessageReader(change(Operation::compare_set, fields)).text() == value;
}

std::string SurvivingStore::describe() const {
  return name_of_store(is_held_here() ? own_ : copy_.replica->standing(Clock::now()).leader);
}

bool SurvivingStore::is_held_here() const { return copy_.replica->standing(Clock::now()).leads; }

std::string SurvivingStore::change(Operation operation, const MessageWriter& fields) {
  const std::lock_guard lock(mutex_);
  const auto number = static_cast<std::uint64_t>(operation);
  return ask(Operation::once, MessageWriter().text(id_).number(++changes_).number(number).append(fields));
}

std::string SurvivingStore::ask(Operation operation, const MessageWriter& fields) {
  const auto begin = Clock::now();
  const auto deadline = begin + limit_;
  bool told = false;
  for (;;) {
    bool silent = false;
    std::string why;
    try {
      connect(deadline);
      return client_->ask(operation, fields, std::min(told ? deadline : begin + notice_, Clock::now() + kAttempt));
    } catch (const store::Overdue& error) {
      silent = true;
      why = error.what();
    } catch (const store::Elsewhere& error) {
      client_.reset();
      why = error.what();
    } catch (const store::Unreachable& error) {
      client_.reset();
      why = error.what();
    } catch (const Error&) {
      throw;
    } catch (const std::exception& error) {
      fail(ErrorKind::io, "rendezvous", "{}: {}", describe(), error.what());
    }
    if (Clock::now() >= deadline) fail_after(silent, why);
    if (Clock::now() - begin >= notice_ && !std::exchange(told, true)) {
      tell_of_silence(why);
    }
    std::this_thread::sleep_for(kPause);
  }
}

/// Connects to the process that holds the store now.
void SurvivingStore::connect(store::Time deadline) {
  const auto standing = copy_.replica->standing(Clock::now());
  const auto holder = standing.leads ? own_ : standing.leader;
  if (client_ && holder == holder_) return;
  client_.reset();
  if (holder.empty()) throw store::Unreachable("its present holder is not known");
  const auto limit = std::min(deadline, Clock::now() + kAttempt);
  auto client = std::make_unique<store::Client>(holder.host, holder.port, credentials_, limit);
  const auto answer = client->ask(Operation::stand, {}, limit);
  MessageReader reader(answer);
  const auto other = store::read_standing(reader);
  if (!other.leads) throw store::Elsewhere("it does not hold the store");
  if (store_.empty()) store_ = other.view.store;
  if (other.view.store != store_) {
    fail(ErrorKind::peer_lost, "rendezvous",
         "{} is not the store that this launcher had joined, which is lost or was replaced by it; start the same "
         "command again",
         name_of_store(holder));
  }
  holder_ = holder;
  client_ = std::move(client);
}

void SurvivingStore::tell_of_silence(const std::string& why) const {
  const auto so_far = notice_.count() / 1e3;
  if (is_held_here()) {
    return log_warning(
        "lockstep run: this launcher holds the job's store, and one with a copy has not answered for {:.1f} s; this "
        "one soon goes on without it if enough copies are left",
        so_far);
  }
  log_warning(
      "lockstep run: {} has not answered for {:.1f} s ({}); requests are repeated for at most {:.1f} s (read_timeout)",
      holder_.empty() ? describe() : name_of_store(holder_), so_far, why, limit_.count() / 1e3);
}

void SurvivingStore::fail_after(bool silent, const std::string& why) const {
  const auto standing = copy_.replica->standing(Clock::now());
  const auto& view = standing.view;
  const auto name = holder_.empty() ? describe() : name_of_store(holder_);
  if (standing.leads)
    fail(ErrorKind::timeout, "rendezvous", "{} has not answered for {:.1f} s", name, limit_.count() / 1e3);
  const auto rule =
      view.has(standing.id)
          ? fmt::format(
                "{} launchers had a copy; to go on without the holder, more than half of them are needed, unless "
                "its process is seen to have ended",
                view.members.size())
          : std::string("this launcher has no copy, and no launcher with a copy holds the store");
  if (silent || standing.free) {
    fail(ErrorKind::timeout, "rendezvous",
         "{} has not answered for {:.1f} s: the host of the launcher that holds it, or the network to it, has failed "
         "({}). {}",
         name, limit_.count() / 1e3, why, rule);
  }
  fail(ErrorKind::peer_lost, "rendezvous", "{} is lost: the launcher that holds it has ended ({}). {}", name, why,
       rule);
}

}  // namespace lockstep::cluster::elastic
