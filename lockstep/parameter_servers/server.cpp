// One thread for each worker over the shared rows. The thread that gets the last gradients of a step makes the update;
// with asynchronous workers, each thread updates with the gradients of its worker. And the subgroups of a job with
// servers: one of all workers, and a pair for each worker and server.
#include <lockstep/base/error.h>
#include <lockstep/comm/reduction/kernels.h>
#include <lockstep/parameter_servers/messages.h>
#include <lockstep/parameter_servers/server.h>
#include <lockstep/parameter_servers/wire.h>

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <exception>
#include <iterator>
#include <mutex>
#include <numeric>
#include <optional>
#include <thread>
#include <utility>

namespace lockstep::parameter_servers {
namespace {

/// The time between two requests is unlimited, because a worker may compute, evaluate or save. If the worker is lost,
/// the group reports it.
constexpr std::chrono::hours kIdle(24 * 365);

/// The gradients of one worker for one step. The memory is reused, and may be larger.
struct Push {
  Header header;
  std::vector<PushedTable> tables;
  std::vector<std::int64_t> ids;
  std::vector<float> values;

  void make_room(std::size_t for_ids, std::size_t for_values) {
    if (ids.size() < for_ids) ids.resize(for_ids);
    if (values.size() < for_values) values.resize(for_values);
  }
};

class Serving {
 public:
  Serving(const std::vector<Group>& pairs, HeldRows& rows, const ServerOptions& options)
      : pairs_(pairs),
        rows_(rows),
        options_(options),
        clocks_(pairs.size(), rows.step, options.most_ahead.value_or(0)) {
    if (options.most_ahead && rows.parts.size() > 1) {
      fail(ErrorKind::invalid_argument, "parameter server", "copies of rows need gradients that arrive in one order");
    }
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
    // The groups of the other threads then fail, too.
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
      case Request::finish: note_end(worker, header); return false;
    }
    return false;
  }

  void note_end(std::size_t worker, const Header& header) {
    {
      const std::lock_guard lock(mutex_);
      if (header.ids != 0) report_.ended_by = static_cast<int>(header.ids);
      clocks_.finish(worker);
    }
    changed_.notify_all();  // no thread waits for this worker any more
  }

  void answer_pull(std::size_t worker, const Header& header) {
    const auto& shard = rows_.parts.front()[static_cast<std::size_t>(header.table)];
    std::vector<std::int64_t> ids(static_cast<std::size_t>(header.ids));
    receive_numbers(std::span(ids), pairs_[worker], limit_of_message(options_.limit));
    require_ids(ids, shard.table());
    {
      std::unique_lock lock(mutex_);
      if (clocks_.of(worker) != header.step) wrong_step(worker, header);
      await(lock, worker, header, [&] { return clocks_.awaited_to_begin(header.step); });
      if (options_.asked) options_.asked(header.step + 1);
      report_.pulled += header.ids;
    }
    const auto fill = [&](std::size_t first, std::size_t count, float* rows) {
      // Without `most_ahead`, no row changes before this worker has sent its gradients.
      std::unique_lock lock(mutex_, std::defer_lock);
      if (options_.most_ahead) lock.lock();
      shard.read(std::span(ids).subspan(first, count), rows);
    };
    RowSender sender(pairs_[worker], {{.rows = ids.size(), .dim = shard.dim(), .fill = fill}},
                     limit_of_message(options_.limit));
    while (sender.send_piece()) {
    }
    sender.wait();
  }

  void confirm(std::size_t worker, const Header& header) {
    {
      std::unique_lock lock(mutex_);
      await_all(lock, worker, header);
    }
    const std::array<std::int64_t, 1> completed{header.step};
    send_numbers(std::span<const std::int64_t>(completed), pairs_[worker]).wait(options_.limit);
  }

  void save(std::size_t worker, const Header& header) {
    {
      std::unique_lock lock(mutex_);
      await_all(lock, worker, header);
    }
    // Other workers may still wait for responses to earlier requests. No step can be completed without this worker, so
    // the rows do not change.
    options_.save(header.step);
  }

  /// Waits until all workers have completed the steps of this worker.
  void await_all(std::unique_lock<std::mutex>& lock, std::size_t worker, const Header& header) {
    if (clocks_.of(worker) != header.step) wrong_step(worker, header);
    await(lock, worker, header, [&] { return clocks_.behind(header.step); });
    if (clocks_.slowest() != header.step) wrong_step(worker, header);
  }

  /// `awaited`: the workers to wait for; empty: the wait is over.
  template <typename Awaited>
  void await(std::unique_lock<std::mutex>& lock, std::size_t worker, const Header& header, const Awaited& awaited) {
    if (!changed_.wait_for(lock, options_.limit, [&] { return problem_ || awaited().empty(); })) {
      const auto waits = header.request == Request::pull
                             ? "waits for rows of " + tables_[static_cast<std::size_t>(header.table)].name
                             : std::string("has a request");
      fail(ErrorKind::timeout, "parameter server",
           "server {}: worker {} {} after step {}, and the gradients of that step from worker(s) {} have not arrived "
           "in {:.0f} s",
           options_.server, worker, waits, header.step, fmt::join(awaited(), ", "),
           std::chrono::duration<double>(options_.limit).count());
    }
    if (problem_) fail(ErrorKind::peer_lost, "parameter server", "server {} has failed", options_.server);
  }

  [[noreturn]] void wrong_step(std::size_t worker, const Header& header) const {
    fail(ErrorKind::mismatch, "parameter server",
         "server {} has gradients for {} steps from worker {}, whose request follows step {}", options_.server,
         clocks_.of(worker), worker, header.step);
  }

  void take_push(std::size_t worker, const Header& header) {
    const auto& pair = pairs_[worker];
    std::vector<std::int64_t> counts(2 * tables_.size());
    const auto limit = limit_of_message(options_.limit);
    receive_numbers(counts, pair, limit);
    Push push = spare_push();
    push.header = header;
    push.tables = decode_counts(counts, header, tables_);
    const auto ids = static_cast<std::size_t>(header.ids);
    push.make_room(ids, static_cast<std::size_t>(numbers_of(push.tables, tables_)));
    receive_numbers(std::span(push.ids).first(ids), pair, limit);
    const auto* id = push.ids.data();
    auto* values = push.values.data();
    std::vector<RowsToReceive> runs;
    for (std::size_t i = 0; i < tables_.size(); ++i) {
      const auto rows = static_cast<std::size_t>(push.tables[i].rows);
      const auto dim = static_cast<std::size_t>(tables_[i].dim);
      require_ids({id, rows}, tables_[i]);
      id += rows;
      runs.push_back({.rows = rows, .dim = dim, .memory = values});
      values += rows * dim;
    }
    RowReceiver receiver(pair, std::move(runs), limit);
    while (receiver.receive_piece()) {
    }
    std::unique_lock lock(mutex_);
    if (options_.most_ahead) return update_at_once(worker, std::move(push));
    // A worker that needs no row of this server in its next step may push before the last step has the gradients of all
    // workers.
    await_all(lock, worker, header);
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
    if (std::ranges::all_of(pushes_, [&](const auto& of_part) { return of_part[worker].has_value(); })) {
      count_step(worker, [&] { update_by_all(); });
    }
  }

  Push spare_push() {
    const std::lock_guard lock(mutex_);
    if (spare_.empty()) return {};
    Push push = std::move(spare_.back());
    spare_.pop_back();
    return push;
  }

  /// A worker has completed a step. `complete` is called when all have.
  template <typename Complete>
  void count_step(std::size_t worker, const Complete& complete) {
    clocks_.complete_step(worker);
    if (clocks_.slowest() > rows_.step) {
      complete();
      ++rows_.step;
      if (options_.completed) options_.completed(rows_.step);
    }
    changed_.notify_all();
  }

  /// Updates with the gradients of all workers.
  void update_by_all() {
    if (options_.gathered) options_.gathered(rows_.step + 1);
    const float divisor = options_.mean ? static_cast<float>(pairs_.size()) : 1.0F;
    for (std::size_t part = 0; part < rows_.parts.size(); ++part) {
      std::vector<Push> pushes;
      for (auto& push : pushes_[part]) {
        pushes.push_back(std::move(*push));
        push.reset();
      }
      update(rows_.parts[part], std::move(pushes), divisor);
    }
    rows_.remembers = options_.remembers_step;
  }

  /// Updates with the gradients of one worker, on their arrival.
  void update_at_once(std::size_t worker, Push push) {
    if (clocks_.of(worker) != push.header.step) wrong_step(worker, push.header);
    report_.pushed += push.header.ids;
    std::vector<Push> pushes;
    pushes.push_back(std::move(push));
    update(rows_.parts.front(), std::move(pushes), 1);
    count_step(worker, [] {});
  }

  /// One update of all tables, whose gradients are added in the order of the pushes.
  void update(std::vector<Shard>& shards, std::vector<Push> pushes, float divisor) {
    std::vector<std::size_t> next_id(pushes.size()), next_value(pushes.size());
    for (std::size_t table = 0; table < tables_.size(); ++table) {
      if (options_.remembers_step) shards[table].remember_from_here();
      std::vector<rows::SparseRowsView> views;
      bool used = false;
      for (std::size_t worker = 0; worker < pushes.size(); ++worker) {
        const auto& push = pushes[worker];
        const auto count = static_cast<std::size_t>(push.tables[table].rows);
        views.push_back({{push.ids.data() + next_id[worker], count}, push.values.data() + next_value[worker]});
        next_id[worker] += count;
        next_value[worker] += count * shards[table].dim();
        used |= push.tables[table].used;
      }
      if (used) update_table(shards[table], table, views, divisor, pushes.front().header);
    }
    std::ranges::move(pushes, std::back_inserter(spare_));
  }

  void update_table(Shard& shard, std::size_t table, std::span<const rows::SparseRowsView> views, float divisor,
                    const Header& header) {
    shard.count_step();
    const auto step = options_.update(table, header.lr, shard.steps());
    const auto scale = static_cast<float>(header.scale);
    rows::sum_blocks_over_ranks(views, shard.dim(), reduction::left_of, divisor,
                                [&](std::span<const std::int64_t> ids, float* gradients) {
                                  if (header.scale != 1) {
                                    for (std::size_t i = 0; i < ids.size() * shard.dim(); ++i) gradients[i] *= scale;
                                  }
                                  shard.update(ids, gradients, step);
                                });
  }

  const std::vector<Group>& pairs_;
  HeldRows& rows_;
  const ServerOptions& options_;
  std::vector<TableSpec> tables_;
  std::mutex mutex_;  ///< of everything below, and of the rows
  std::condition_variable changed_;
  std::vector<std::vector<std::optional<Push>>> pushes_;  ///< by part and worker
  WorkerClocks clocks_;
  std::vector<Push> spare_;
  ServerReport report_;
  std::exception_ptr problem_;
};

}  // namespace

ServerReport serve(const std::vector<Group>& pairs, HeldRows& rows, const ServerOptions& options) {
  return Serving(pairs, rows, options).run();
}

Division divide(const Group& all, int servers) {
  if (servers >= all.size()) {
    fail(ErrorKind::config, "cluster.server_num",
         "is {} and the job has {} processes, so that none would be a worker; start {} more, or fewer servers", servers,
         all.size(), servers + 1 - all.size());
  }
  Division division{.workers = all.size() - servers, .servers = servers, .group = std::nullopt, .pairs = {}};
  std::vector<int> workers(static_cast<std::size_t>(division.workers));
  std::iota(workers.begin(), workers.end(), 0);
  division.group = all.subgroup(workers);
  for (int worker = 0; worker < division.workers; ++worker) {
    for (int server = 0; server < servers; ++server) {
      // Sequential, in the same order on all ranks.
      if (auto pair = all.subgroup({worker, division.workers + server})) division.pairs.push_back(pair->unchecked());
    }
  }
  return division;
}

}  // namespace lockstep::parameter_servers
