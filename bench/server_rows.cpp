// Rows to and from one parameter server through shared memory, beside memcpy of the same bytes.
//
//   lockstep run --nproc-per-node 2 build/release/bench/server_rows [rows of a request] [numbers of a row]
//
// Rank 0 is the worker and rank 1 its server. In each round, the worker fetches all rows into memory that is there, as
// that of memcpy is, pushes gradients for all of them and waits until the server has made the update (lazy_sgd). Prints
// one JSON line: medians in GB/s of the bytes of rows, of 20 rounds.
#include <lockstep/base/text.h>
#include <lockstep/lockstep.h>
#include <lockstep/parameter_servers/client.h>
#include <lockstep/parameter_servers/server.h>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <exception>
#include <numeric>
#include <span>
#include <vector>

namespace {

using namespace lockstep;

constexpr int kRounds = 20;

template <typename Call>
double seconds_of(const Call& call) {
  const auto begin = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void serve(const parameter_servers::Division& division, const parameter_servers::TableSpec& table) {
  parameter_servers::HeldRows rows;
  rows.parts.emplace_back().emplace_back(table, rows::RuleSettings{});
  parameter_servers::ServerOptions options;
  options.limit = std::chrono::seconds(60);
  options.update = [](std::size_t, double lr, std::int64_t step) { return rows::row_update({}, lr, step); };
  parameter_servers::serve(division.pairs, rows, options);
}

void work(parameter_servers::Division division, const parameter_servers::TableSpec& table) {
  parameter_servers::RowClient client(std::move(division.pairs), {table}, {});
  std::vector<std::int64_t> ids(static_cast<std::size_t>(table.rows));
  std::iota(ids.begin(), ids.end(), 0);
  const auto numbers = static_cast<std::size_t>(table.rows * table.dim);
  const std::vector<float> values(numbers, 0.5F);
  const std::vector<parameter_servers::GradientsOfTable> gradients{{.used = true, .ids = ids, .values = values.data()}};
  std::vector<float> rows(numbers), copy(numbers);
  const std::vector<parameter_servers::WantedRows> wanted{{.table = 0, .ids = ids, .rows = rows.data()}};
  std::vector<double> pulls, pushes, copies;
  for (int round = 0; round < kRounds; ++round) {
    pulls.push_back(seconds_of([&] { client.fetch(wanted); }));
    pushes.push_back(seconds_of([&] {
      client.push(gradients, 0.1, 1);
      client.confirm();
    }));
    copies.push_back(seconds_of([&] { std::memcpy(copy.data(), rows.data(), numbers * sizeof(float)); }));
  }
  client.finish();
  const double gigabytes = static_cast<double>(numbers * sizeof(float)) / 1e9;
  fmt::print("{{\"rows\": {}, \"dim\": {}, \"pull_gb_s\": {:.2f}, \"push_gb_s\": {:.2f}, \"memcpy_gb_s\": {:.2f}}}\n",
             table.rows, table.dim, gigabytes / median(pulls), gigabytes / median(pushes), gigabytes / median(copies));
}

}  // namespace

int main(int argc, char** argv) try {
  const std::span arguments(argv, static_cast<std::size_t>(argc));
  const auto argument = [&](std::size_t index, std::int64_t usual) {
    return arguments.size() > index ? parse_integer(arguments[index]).value() : usual;
  };
  const parameter_servers::TableSpec table{.name = "table",
                                           .rows = argument(1, 100'000),
                                           .dim = argument(2, 64),
                                           .seed = 1,
                                           .deviation = 0.1,
                                           .key = parameter_servers::key_of("table")};
  const auto group = init();
  auto division = parameter_servers::divide(group, 1);
  if (group.rank() == 0) {
    work(std::move(division), table);
  } else {
    serve(division, table);
  }
  return 0;
} catch (const std::exception& error) {
  lockstep::cluster::report_failure(error);
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
