#include <lockstep/base/error.h>
#include <lockstep/comm/sum_tree.h>
#include <lockstep/servers/messages.h>
#include <lockstep/servers/server.h>
#include <lockstep/servers/wire.h>

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

namespace lockstep::servers {
namespace {

/// Between two requests a worker may compute, evaluate or save for as long as it likes. If it dies, the group tells.
constexpr std::chrono::hours kIdle(24 * 365);

/// The gradients of one worker for one step.
struct Push {
  Header header;
  std::vector<PushedTable> tables;
  std::vector<std::int64_t> ids;
  std::vector<float> values;
};

class Serving {
 public:
  Serving(const std::vector<Group>& pairs, HeldRows& rows, const ServerOptions& options)
      : pairs_(pairs), rows_(rows), options_(options) {
    for (const auto& shard : rows.parts.front()) tables_.push_back(shard.table());
    pushes_.resize(rows.parts.size());
    for (auto& of_part : pushes_) of_part.resize(pairs.size());
  }

  ServerReport run() {
    std::vector<std::jthread> threads;
    for (std::size_t worker = 0; worker < pairs_.size(); ++worker) {
      threads.emplace_back([this, worker] { answer_until_done(worker); });
    }
    threads.clear();
    if (problem_) std::rethrow_exception(problem_);
    for (const auto& part : rows_.parts) {
      for (const auto& shard : part) {
        report_.rows += shard.size();
        report_.bytes += shard.bytes();
      }
    }
    return report_;
  }

 private:
  void answer_until_done(std::size_t worker) noexcept {
    try {
      while (answer(worker)) {
      }
    } catch (const std::exception& error) {
      end_because(worker, error.what());
    }
  }

  void end_because(std::size_t worker, const char* what) noexcept {
    {
      const std::lock_guard lock(mutex_);
      if (!problem_) problem_ = std::current_exception();
    }
    changed_.notify_all();
    // Groups of the other threads fail with it.
    Group(pairs_[worker]).abort(what);
  }

  /// False when the worker has finished.
  bool answer(std::size_t worker) {
    const auto& pair = pairs_[worker];
    HeaderWords words{};
    receive_numbers(std::span<std::int64_t>(words), pair, kIdle);
    const auto header = decode(words, tables_);
    switch (header.request) {
      case Request::pull: answer_pull(worker, header); return true;
      case Request::push: take_push(worker, header); return true;
      case Request::confirm: confirm(worker, header); return true;
      case Request::save: save(worker, header); return true;
      case Request::finish: note_end(header); return false;
    }
    return false;
  }

  void note_end(const Header& header) {
    const std::lock_guard lock(mutex_);
    if (header.ids != 0) report_.ended_by = static_cast<int>(header.ids);
  }

  void answer_pull(std::size_t worker, const Header& header) {
    const auto& shard = rows_.parts.front()[static_cast<std::size_t>(header.table)];
    std::vector<std::int64_t> ids(static_cast<std::size_t>(header.ids));
    receive_numbers(ids, pairs_[worker], options_.limit);
    require_ids(ids, shard.table());
    std::vector<float> rows(ids.size() * shard.dim());
    {
      std::unique_lock lock(mutex_);
      await_step(lock, worker, header);
      if (options_.asked) options_.asked(header.step + 1);
      for (std::size_t i = 0; i < ids.size(); ++i) shard.read(ids[i], rows.data() + i * shard.dim());
      report_.pulled += header.ids;
    }
    send_numbers(std::span<const float>(rows), pairs_[worker]).wait(options_.limit);
  }

  void confirm(std::size_t worker, const Header& header) {
    {
      std::unique_lock lock(mutex_);
      await_step(lock, worker, header);
    }
    const std::array<std::int64_t, 1> completed{header.step};
    send_numbers(std::span<const std::int64_t>(completed), pairs_[worker]).wait(options_.limit);
  }

  void save(std::size_t worker, const Header& header) {
    {
      std::unique_lock lock(mutex_);
      await_step(lock, worker, header);
    }
    // Others may still wait for answers to what they asked before it. No step can be completed without this worker, so
    // the rows stay as they are.
    options_.save(header.step);
  }

  void await_step(std::unique_lock<std::mutex>& lock, std::size_t worker, const Header& header) {
    const auto ready = [&] { return problem_ || rows_.step >= header.step; };
    if (!changed_.wait_for(lock, options_.limit, ready)) {
      std::vector<std::size_t> missing;
      for (std::size_t i = 0; i < pairs_.size(); ++i) {
        const auto is_missing = [&](const auto& of_part) { return !of_part[i]; };
        if (std::any_of(pushes_.begin(), pushes_.end(), is_missing)) missing.push_back(i);
      }
      const auto waits = header.request == Request::pull
                             ? "waits for rows of " + tables_[static_cast<std::size_t>(header.table)].name
                             : std::string("has a request");
      fail(ErrorKind::timeout, "parameter server",
           "server {}: worker {} {} after step {}, and the gradients of that step from worker(s) {} have not come in "
           "{:.0f} s",
           options_.server, worker, waits, header.step, fmt::join(missing, ", "),
           std::chrono::duration<double>(options_.limit).count());
    }
    if (problem_) fail(ErrorKind::peer_lost, "parameter server", "server {} has failed", options_.server);
    if (rows_.step != header.step) wrong_step(worker, header);
  }

  [[noreturn]] void wrong_step(std::size_t worker, const Header& header) const {
    fail(ErrorKind::mismatch, "parameter server", "server {} has completed step {}, and worker {} asks as if after {}",
         options_.server, rows_.step, worker, header.step);
  }

  void take_push(std::size_t worker, const Header& header) {
    const auto& pair = pairs_[worker];
    std::vector<std::int64_t> counts(2 * tables_.size());
    receive_numbers(counts, pair, options_.limit);
    Push push{.header = header, .tables = decode_counts(counts, header, tables_), .ids = {}, .values = {}};
    push.ids.resize(static_cast<std::size_t>(header.ids));
    push.values.resize(static_cast<std::size_t>(numbers_of(push.tables, tables_)));
    receive_numbers(push.ids, pair, options_.limit);
    receive_numbers(push.values, pair, options_.limit);
    const auto* id = push.ids.data();
    for (std::size_t i = 0; i < tables_.size(); ++i) {
      const auto count = static_cast<std::size_t>(push.tables[i].rows);
      require_ids({id, count}, tables_[i]);
      id += count;
    }
    std::unique_lock lock(mutex_);
    // A worker that needed no row of this server in its next step may be here before the others' gradients of the last.
    await_step(lock, worker, header);
    const std::size_t part = header.copy ? 1 : 0;
    if (part >= pushes_.size()) {
      fail(ErrorKind::mismatch, "parameter server",
           "server {} has no copy of another server's rows, and worker {} sends it gradients for one "
           "(parallel.server.replicas must be equal in all processes)",
           options_.server, worker);
    }
    auto& place = pushes_[part][worker];
    if (place) wrong_step(worker, header);
    report_.pushed += header.ids;
    place = std::move(push);
    if (++arrived_ < pairs_.size() * pushes_.size()) return;
    complete_step();
    changed_.notify_all();
  }

  /// With the gradients of all workers.
  void complete_step() {
    if (options_.gathered) options_.gathered(rows_.step + 1);
    for (std::size_t part = 0; part < rows_.parts.size(); ++part) update(rows_.parts[part], pushes_[part]);
    arrived_ = 0;
    rows_.remembers = options_.remembers_step;
    ++rows_.step;
    if (options_.completed) options_.completed(rows_.step);
  }

  void update(std::vector<Shard>& shards, std::vector<std::optional<Push>>& pushes) {
    std::vector<std::size_t> next_id(pushes.size()), next_value(pushes.size());
    const float divisor = options_.mean ? static_cast<float>(pushes.size()) : 1.0F;
    for (std::size_t table = 0; table < tables_.size(); ++table) {
      if (options_.remembers_step) shards[table].remember_from_here();
      std::vector<rows::SparseRowsView> views;
      bool used = false;
      for (std::size_t worker = 0; worker < pushes.size(); ++worker) {
        const auto& push = *pushes[worker];
        const auto count = static_cast<std::size_t>(push.tables[table].rows);
        views.push_back({{push.ids.data() + next_id[worker], count}, push.values.data() + next_value[worker]});
        next_id[worker] += count;
        next_value[worker] += count * shards[table].dim();
        used |= push.tables[table].used;
      }
      if (used) update_table(shards[table], table, views, divisor, pushes.front()->header);
    }
    for (auto& push : pushes) push.reset();
  }

  void update_table(Shard& shard, std::size_t table, std::span<const rows::SparseRowsView> views, float divisor,
                    const Header& header) {
    auto sums = rows::sum_over_ranks(views, shard.dim(), detail::left_of, divisor);
    if (header.scale != 1) {
      for (auto& value : sums.values) value *= static_cast<float>(header.scale);
    }
    shard.update(sums, options_.update(table, header.lr, shard.steps() + 1));
  }

  const std::vector<Group>& pairs_;
  HeldRows& rows_;
  const ServerOptions& options_;
  std::vector<TableSpec> tables_;
  std::mutex mutex_;  ///< of everything below, and of the rows
  std::condition_variable changed_;
  std::vector<std::vector<std::optional<Push>>> pushes_;  ///< by part and worker
  std::size_t arrived_ = 0;
  ServerReport report_;
  std::exception_ptr problem_;
};

}  // namespace

ServerReport serve(const std::vector<Group>& pairs, HeldRows& rows, const ServerOptions& options) {
  return Serving(pairs, rows, options).run();
}

}  // namespace lockstep::servers
