// Pulls and pushes of a worker, split by server and sent in pieces in turn, so that all servers work in parallel.
#include <lockstep/base/error.h>
#include <lockstep/parameter_servers/client.h>
#include <lockstep/parameter_servers/messages.h>
#include <lockstep/parameter_servers/server_rows.h>
#include <lockstep/parameter_servers/wire.h>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <array>
#include <list>
#include <utility>

namespace lockstep::parameter_servers {

/// The ids of a request that one server has, and their places in the request: `places`, or where that is empty, those
/// from `first` on.
struct RowClient::Part {
  std::vector<std::int64_t> ids;
  std::size_t first = 0;
  std::vector<std::size_t> places;
};

namespace {

/// The data of a push to the servers that have the rows of one part.
struct Parcel {
  HeaderWords header{};
  std::vector<PushedTable> tables;
  std::vector<std::int64_t> counts;
  std::vector<std::int64_t> ids;
  std::vector<RowsToSend> rows;  ///< by table
};

/// Sends or receives a piece of each server in turn, so that several servers work in parallel.
template <typename Each>
void in_turn(std::size_t count, const Each& each) {
  for (bool more = true; more;) {
    more = false;
    for (std::size_t i = 0; i < count; ++i) more = each(i) || more;
  }
}

}  // namespace

RowClient::RowClient(std::vector<Group> pairs, std::vector<TableSpec> tables, const ClientOptions& options)
    : pairs_(std::move(pairs)), tables_(std::move(tables)), options_(options), step_(options.step) {
  if (options.cache_rows == 0) return;
  std::vector<std::size_t> dims;
  for (const auto& table : tables_) dims.push_back(static_cast<std::size_t>(table.dim));
  cache_.emplace(static_cast<std::size_t>(options.cache_rows), std::move(dims));
}

std::size_t RowClient::index_of(const std::string& table) const {
  const auto found = std::ranges::find(tables_, table, &TableSpec::name);
  if (found == tables_.end()) fail(ErrorKind::invalid_argument, "parameter server", "there is no table {}", table);
  return static_cast<std::size_t>(found - tables_.begin());
}

std::vector<RowClient::Part> RowClient::parts_of(std::size_t table, std::span<const std::int64_t> ids) const {
  const auto servers = static_cast<int>(pairs_.size());
  std::vector<Part> parts(pairs_.size());
  const auto server_of_id = [&](std::int64_t id) { return server_of(options_.partition, tables_[table], id, servers); };
  if (servers == 1 || (options_.partition == Partition::range && !tables_[table].is_slices)) {
    std::size_t first = 0;
    for (int server = 0; server < servers; ++server) {
      const auto rest = ids.subspan(first);
      const auto end = server + 1 == servers
                           ? rest.end()
                           : std::ranges::partition_point(rest, [&](auto id) { return server_of_id(id) <= server; });
      parts[static_cast<std::size_t>(server)] = {.ids = {rest.begin(), end}, .first = first, .places = {}};
      first += static_cast<std::size_t>(end - rest.begin());
    }
    return parts;
  }
  for (auto& part : parts) {
    const auto about = ids.size() / parts.size() + ids.size() / 8;
    part.ids.reserve(about);
    part.places.reserve(about);
  }
  for (std::size_t i = 0; i < ids.size(); ++i) {
    auto& part = parts[static_cast<std::size_t>(server_of_id(ids[i]))];
    part.ids.push_back(ids[i]);
    part.places.push_back(i);
  }
  return parts;
}

void RowClient::rethrow_with_place(std::size_t server, const std::string& table) const {
  try {
    throw;
  } catch (const Error& error) {
    throw Error(error.kind(), error.where(),
                fmt::format("server {}, {}, after step {}: {}", server, table, step_, error.message()),
                error.position());
  }
}

at::Tensor RowClient::fetch(const std::string& table, std::span<const std::int64_t> ids) {
  const auto index = index_of(table);
  auto rows = at::empty({static_cast<std::int64_t>(ids.size()), tables_[index].dim}, at::kFloat);
  const WantedRows wanted{.table = index, .ids = ids, .rows = rows.data_ptr<float>()};
  if (cache_ && !at::GradMode::is_enabled()) {
    fetch_through_cache(wanted);
  } else {
    fetch(std::span(&wanted, 1));
  }
  return rows;
}

void RowClient::fetch_through_cache(const WantedRows& wanted) {
  const auto dim = static_cast<std::size_t>(tables_[wanted.table].dim);
  cache_->begin(step_);
  std::vector<std::int64_t> ids;
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < wanted.ids.size(); ++i) {
    if (const auto* row = cache_->find(wanted.table, wanted.ids[i])) {
      std::copy_n(row, dim, wanted.rows + i * dim);
    } else {
      ids.push_back(wanted.ids[i]);
      places.push_back(i);
    }
  }
  if (ids.empty()) return;
  std::vector<float> rows(ids.size() * dim);
  const WantedRows missing{.table = wanted.table, .ids = ids, .rows = rows.data()};
  fetch(std::span(&missing, 1));
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto* row = rows.data() + i * dim;
    std::copy_n(row, dim, wanted.rows + places[i] * dim);
    cache_->put(wanted.table, ids[i], row);
  }
}

void RowClient::fetch(std::span<const WantedRows> wanted) {
  std::vector<std::vector<Part>> parts;           // by request and server
  std::vector<std::vector<HeaderWords>> headers;  // likewise
  for (const auto& each : wanted) {
    parts.push_back(parts_of(each.table, each.ids));
    headers.emplace_back(pairs_.size());
  }
  std::list<Work> sends;
  std::vector<RowReceiver> receivers;
  std::size_t server = 0;
  try {
    for (server = 0; server < pairs_.size(); ++server) {
      const auto& pair = pairs_[server];
      std::vector<RowsToReceive> runs;
      for (std::size_t i = 0; i < wanted.size(); ++i) {
        const auto& part = parts[i][server];
        if (part.ids.empty()) continue;
        const auto dim = static_cast<std::size_t>(tables_[wanted[i].table].dim);
        headers[i][server] = encode(Header{.request = Request::pull,
                                           .step = step_,
                                           .table = static_cast<std::int64_t>(wanted[i].table),
                                           .ids = static_cast<std::int64_t>(part.ids.size())});
        sends.push_back(send_numbers(std::span<const std::int64_t>(headers[i][server]), pair));
        sends.push_back(send_numbers(std::span<const std::int64_t>(part.ids), pair));
        runs.push_back({.rows = part.ids.size(), .dim = dim});
        auto* out = wanted[i].rows;
        if (part.places.empty()) {
          runs.back().memory = out + part.first * dim;
        } else {
          runs.back().take = [&part, out, dim](std::size_t first, std::size_t count, const float* values) {
            for (auto k = first; k < first + count; ++k, values += dim) {
              std::copy_n(values, dim, out + part.places[k] * dim);
            }
          };
        }
      }
      receivers.emplace_back(pair, std::move(runs), limit_of_answer(pair.timeout()));
    }
    in_turn(receivers.size(), [&](std::size_t i) { return receivers[server = i].receive_piece(); });
    for (auto& send : sends) send.wait();
  } catch (const Error&) {
    rethrow_with_place(server, wanted.size() == 1 ? tables_[wanted.front().table].name : "parameters");
  }
}

void RowClient::push(std::span<const GradientsOfTable> gradients, double lr, double scale) {
  std::vector<std::vector<Part>> parts;  // by table and server
  std::vector<Parcel> parcels(pairs_.size());
  for (std::size_t table = 0; table < gradients.size(); ++table) {
    parts.push_back(parts_of(table, gradients[table].ids));
  }
  for (std::size_t table = 0; table < gradients.size(); ++table) {
    const auto& gradient = gradients[table];
    const auto dim = static_cast<std::size_t>(tables_[table].dim);
    const auto* values = gradient.values;
    for (std::size_t server = 0; server < pairs_.size(); ++server) {
      const auto& part = parts[table][server];
      auto& parcel = parcels[server];
      parcel.tables.push_back({gradient.used, static_cast<std::int64_t>(part.ids.size())});
      parcel.ids.insert(parcel.ids.end(), part.ids.begin(), part.ids.end());
      RowsToSend run{.rows = part.ids.size(), .dim = dim};
      if (part.places.empty()) {
        run.memory = values + part.first * dim;
      } else {
        run.fill = [&part, values, dim](std::size_t first, std::size_t count, float* out) {
          for (auto i = first; i < first + count; ++i, out += dim) std::copy_n(values + part.places[i] * dim, dim, out);
        };
      }
      parcel.rows.push_back(std::move(run));
    }
  }
  for (auto& parcel : parcels) parcel.counts = encode(parcel.tables);
  const auto send_parts = [&](bool copy) {
    std::list<Work> sends;
    std::vector<RowSender> senders;
    std::size_t server = 0;
    try {
      for (server = 0; server < parcels.size(); ++server) {
        auto& parcel = parcels[static_cast<std::size_t>(
            part_of(static_cast<int>(server), copy, static_cast<int>(parcels.size())))];
        parcel.header = encode(Header{.request = Request::push,
                                      .step = step_,
                                      .ids = static_cast<std::int64_t>(parcel.ids.size()),
                                      .lr = lr,
                                      .scale = scale,
                                      .copy = copy});
        const auto& pair = pairs_[server];
        sends.push_back(send_numbers(std::span<const std::int64_t>(parcel.header), pair));
        sends.push_back(send_numbers(std::span<const std::int64_t>(parcel.counts), pair));
        sends.push_back(send_numbers(std::span<const std::int64_t>(parcel.ids), pair));
        senders.emplace_back(pair, parcel.rows, limit_of_answer(pair.timeout()));
      }
      in_turn(senders.size(), [&](std::size_t i) { return senders[server = i].send_piece(); });
      for (server = 0; server < senders.size(); ++server) senders[server].wait();
      server = 0;
      for (auto& send : sends) send.wait();
    } catch (const Error&) {
      rethrow_with_place(server, "gradients");
    }
  };
  send_parts(/*copy=*/false);
  if (options_.replicas == 2) send_parts(/*copy=*/true);
  ++step_;
}

void RowClient::confirm() {
  tell_all(encode(Header{.request = Request::confirm, .step = step_}));
  for (std::size_t server = 0; server < pairs_.size(); ++server) {
    std::array<std::int64_t, 1> completed{};
    try {
      receive_numbers(std::span<std::int64_t>(completed), pairs_[server], limit_of_answer(pairs_[server].timeout()));
    } catch (const Error&) {
      rethrow_with_place(server, "gradients");
    }
    if (completed.front() == step_) continue;
    fail(ErrorKind::mismatch, "parameter server", "server {} has completed step {}, and this worker step {}", server,
         completed.front(), step_);
  }
}

void RowClient::tell_all(const HeaderWords& words) const {
  for (const auto& pair : pairs_) send_numbers(std::span<const std::int64_t>(words), pair).wait();
}

void RowClient::save() { tell_all(encode(Header{.request = Request::save, .step = step_})); }
void RowClient::finish(std::optional<int> ended_by) {
  tell_all(encode(Header{.request = Request::finish, .step = step_, .ids = ended_by.value_or(0)}));
}

RowCache::RowCache(std::size_t rows, std::vector<std::size_t> dims) : most_(rows) {
  for (const auto dim : dims) tables_.push_back({.dim = dim, .slots = {}, .rows = {}});
}

void RowCache::begin(std::int64_t step) {
  if (step == step_) return;
  step_ = step;
  size_ = 0;
  for (auto& table : tables_) {
    table.slots.clear();
    table.rows.clear();
  }
}

const float* RowCache::find(std::size_t table, std::int64_t id) const {
  const auto& of_table = tables_[table];
  const auto found = of_table.slots.find(id);
  return found == of_table.slots.end() ? nullptr : of_table.rows.data() + found->second * of_table.dim;
}

void RowCache::put(std::size_t table, std::int64_t id, const float* row) {
  if (size_ == most_) return;
  auto& of_table = tables_[table];
  if (!of_table.slots.emplace(id, of_table.slots.size()).second) return;
  of_table.rows.insert(of_table.rows.end(), row, row + of_table.dim);
  ++size_;
}

}  // namespace lockstep::parameter_servers
