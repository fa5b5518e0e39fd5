// Tables of what the placements of parameters and inputs cost by themselves, of the costs of a program's steps, and
// iteration over placements.
#include <lockstep/plan/cost/cost_model.h>
#include <lockstep/plan/cost/simulate.h>
#include <lockstep/plan/search/exact.h>

#include <algorithm>
#include <map>

namespace lockstep::plan {

void Variables::take(const Version& version) {
  if (have(version)) return;
  all.push_back(*version.variable);
  sizes.push_back(version.as.size());
}

bool Variables::have(const Version& version) const {
  return !version.variable || std::find(all.begin(), all.end(), *version.variable) != all.end();
}

PlacedAs Variables::look(const Version& version, std::span<const std::uint16_t> at) const {
  if (!version.variable) return version.as[0];
  return version.as[at[static_cast<std::size_t>(std::find(all.begin(), all.end(), *version.variable) - all.begin())]];
}

bool advance(std::vector<std::uint16_t>& at, const std::vector<std::size_t>& sizes) {
  for (std::size_t i = sizes.size(); i-- > 0;) {
    if (++at[i] < sizes[i]) return true;
    at[i] = 0;
  }
  return false;
}

std::vector<Placements> all_options(const TensorInfo& info, const std::vector<std::vector<Placement>>& by_axis,
                                    std::span<const int> mesh_sizes) {
  std::vector<Placements> options;
  std::vector<std::size_t> sizes;
  for (const auto& axis : by_axis) sizes.push_back(axis.size());
  std::vector<std::uint16_t> at(sizes.size());
  do {
    Placements lies;
    for (std::size_t axis = 0; axis < sizes.size(); ++axis) lies.push_back(by_axis[axis][at[axis]]);
    if (may_lie(info, lies, mesh_sizes)) options.push_back(std::move(lies));
  } while (advance(at, sizes));
  return options;
}

namespace {

/// A table with a row for each possible placement of a value.
template <typename CostOf>
Table table_of_one(const Version& version, std::size_t ways, const CostOf& cost_of) {
  Table table;
  if (version.variable) table.variables = {*version.variable};
  for (std::size_t way = 0; way < ways; ++way) {
    if (version.variable) table.values.push_back(static_cast<std::uint16_t>(way));
    table.costs.push_back(cost_of(way));
  }
  return table;
}

}  // namespace

Table memory_table(const Program& program, std::size_t parameter, const Version& version,
                   const std::vector<Placements>& options, std::span<const int> mesh_sizes) {
  const auto& own = program.values[parameter];
  double copies = own.times;
  for (const auto& item : program.values) {
    if (item.parameter == parameter && item.info.sizes == own.info.sizes) copies += own.times;
  }
  return table_of_one(version, options.size(), [&](std::size_t option) {
    return copies * bytes_of_part(own.info, options[option], mesh_sizes).value;
  });
}

std::vector<Placements> input_options(const Space& space) {
  const std::size_t axes = space.mesh_sizes.size();
  std::vector<Placements> options;
  for (std::size_t mask = 0; mask < (std::size_t{1} << axes); ++mask) {
    if (!space.fixed_inputs || mask == 0) options.push_back(divided_along(mask, axes));
  }
  return options;
}

Table loading_table(const TensorInfo& input, const Version& version, const Decisions& decisions) {
  return table_of_one(version, version.as.size(), [&](std::size_t option) {
    const auto part = bytes_of_part(input, decisions.placements(version.as[option]), decisions.mesh_sizes());
    return decisions.model().compute(loading_of(part)).value;
  });
}

namespace {

class Writer {
 public:
  Writer(const Program& program, const Space& space, Decisions& decisions, std::size_t& most_rows, std::size_t most_new)
      : program_(program),
        space_(space),
        decisions_(decisions),
        most_rows_(most_rows),
        most_made_(decisions.made() + most_new),
        now_(program.values.size()),
        unwritten_(program.values.size()) {
    begin_parameters();
    begin_inputs();
    for (std::size_t i = 0; i < program.values.size(); ++i) {
      if (program.values[i].kind == ValueKind::optimizer_state && program.values[i].parameter)
        now_[i] = now_[*program.values[i].parameter];
    }
  }

  std::optional<StepTables> write() {
    for (const auto& step : program_.steps) {
      if (!add(step)) return std::nullopt;
      for (const auto gradient : step.finishes_gradients) finish(step, gradient);
    }
    tables_.variables = next_;
    return std::move(tables_);
  }

 private:
  void begin_parameters() {
    for (std::size_t i = 0; i < program_.parameters.size(); ++i) {
      const auto value = program_.parameters[i];
      const auto& info = program_.values[value].info;
      const auto options = space_.fixed[i] ? std::vector<Placements>{*space_.fixed[i]}
                                           : all_options(info, space_.by_axis[i], space_.mesh_sizes);
      decide({.variable = 0, .options = options, .values = {value}, .inputs = false});
      tables_.persistent.push_back(memory_table(program_, value, now_[value], options, space_.mesh_sizes));
    }
  }

  void begin_inputs() {
    DecisionVariable inputs{.variable = 0, .options = input_options(space_), .values = program_.inputs, .inputs = true};
    if (!program_.inputs.empty()) decide(std::move(inputs));
    for (const auto value : program_.inputs) {
      tables_.time.push_back(loading_table(program_.values[value].info, now_[value], decisions_));
    }
  }

  void decide(DecisionVariable decision) {
    const bool open = decision.options.size() > 1;
    if (open) decision.variable = next_++;
    for (const auto value : decision.values) {
      Version version{.variable = open ? std::optional(decision.variable) : std::nullopt, .as = {}};
      for (const auto& option : decision.options) {
        Assignment lies(program_.values.size(), kReplicated);
        if (decision.inputs) {
          place_inputs(program_, space_, option, decisions_, lies);
        } else {
          lies[value] = decisions_.number(option);
        }
        version.as.push_back(lies[value]);
      }
      now_[value] = std::move(version);
    }
    if (open) tables_.decisions.push_back(std::move(decision));
  }

  /// The placements of one value after a step, for each row of the table.
  struct Result {
    std::size_t value = 0;
    std::vector<PlacedAs> as;
  };

  bool add(const Program::Step& step) {
    Variables variables;
    for (const auto input : step.inputs) {
      if (input != kNoValue) variables.take(now_[input]);
    }
    std::vector<Result> results;
    for (const auto input : step.inputs) {
      const bool output = std::find(step.outputs.begin(), step.outputs.end(), input) != step.outputs.end();
      if (input != kNoValue && !output) results.push_back({.value = input, .as = {}});
    }
    const std::size_t read = results.size();
    for (const auto output : step.outputs) {
      if (output != kNoValue) results.push_back({.value = output, .as = {}});
    }
    Table table{.variables = variables.all, .values = {}, .costs = {}};
    std::vector<std::uint16_t> at(variables.all.size());
    do {
      if (most_rows_ == 0 || decisions_.made() > most_made_) return false;
      --most_rows_;
      const auto& decision = ask(step, variables, at);
      table.values.insert(table.values.end(), at.begin(), at.end());
      table.costs.push_back(step.times * decision.total().value);
      std::size_t result = 0;
      for (std::size_t i = 0; i < step.inputs.size() && result < read; ++i) {
        if (step.inputs[i] == results[result].value) results[result++].as.push_back(decision.inputs[i]);
      }
      for (std::size_t i = 0; i < step.outputs.size(); ++i) {
        if (step.outputs[i] != kNoValue) results[result++].as.push_back(decision.outputs[i]);
      }
    } while (advance(at, variables.sizes));
    settle(step, variables, table, results);
    return true;
  }

  const Decision& ask(const Program::Step& step, const Variables& variables, const std::vector<std::uint16_t>& at) {
    std::vector<PlacedAs> inputs;
    std::vector<PlacedAs> wanted;
    for (const auto input : step.inputs)
      inputs.push_back(input == kNoValue ? kReplicated : variables.look(now_[input], at));
    for (const auto output : step.outputs) {
      const bool own = output != kNoValue && !unwritten_[output] &&
                       std::find(step.inputs.begin(), step.inputs.end(), output) != step.inputs.end();
      wanted.push_back(own ? variables.look(now_[output], at) : kNotWanted);
    }
    return decisions_.decide(step.op, inputs, wanted);
  }

  /// Adds new versions of the changed values as further columns of the table.
  void settle(const Program::Step& step, const Variables& variables, Table table, const std::vector<Result>& results) {
    std::vector<std::pair<std::size_t, Version>> versions;
    std::vector<std::vector<std::uint16_t>> columns;
    for (const auto& result : results) {
      if (stays(variables, table, result)) continue;
      Version version{.variable = {}, .as = {}};
      std::vector<std::uint16_t> column;
      for (const auto placed : result.as) {
        const auto found = std::find(version.as.begin(), version.as.end(), placed);
        column.push_back(static_cast<std::uint16_t>(found - version.as.begin()));
        if (found == version.as.end()) version.as.push_back(placed);
      }
      if (version.as.size() > 1) {
        version.variable = next_++;
        table.variables.push_back(*version.variable);
        columns.push_back(std::move(column));
      }
      versions.emplace_back(result.value, std::move(version));
    }
    for (auto& [value, version] : versions) now_[value] = std::move(version);
    for (const auto output : step.outputs) {
      if (output != kNoValue) unwritten_[output] = program_.operators[step.op].makes_unwritten;
    }
    if (!columns.empty()) {
      const std::size_t before = variables.all.size();
      std::vector<std::uint16_t> values;
      for (std::size_t row = 0; row < table.rows(); ++row) {
        const auto begin = table.values.begin() + static_cast<std::ptrdiff_t>(row * before);
        values.insert(values.end(), begin, begin + static_cast<std::ptrdiff_t>(before));
        for (const auto& column : columns) values.push_back(column[row]);
      }
      table.values = std::move(values);
    }
    if (step.phase == Phase::backward) tables_.backward.push_back(table);
    tables_.time.push_back(std::move(table));
  }

  /// Whether the step never changes the placements of a value.
  bool stays(const Variables& variables, const Table& table, const Result& result) const {
    const auto& version = now_[result.value];
    if (!variables.have(version)) return false;
    const std::size_t width = variables.all.size();
    for (std::size_t row = 0; row < table.rows(); ++row) {
      if (variables.look(version, std::span(table.values).subspan(row * width, width)) != result.as[row]) return false;
    }
    return true;
  }

  /// Gives the gradient the placements of its parameter, and adds the cost of the reduction.
  void finish(const Program::Step& step, std::size_t gradient) {
    const auto& item = program_.values[gradient];
    const auto parameter = *item.parameter;
    Variables variables;
    variables.take(now_[gradient]);
    variables.take(now_[parameter]);
    Table table{.variables = variables.all, .values = {}, .costs = {}};
    Table in = table;
    Table out = table;
    std::vector<std::uint16_t> at(variables.all.size());
    do {
      const auto& from = decisions_.placements(variables.look(now_[gradient], at));
      const auto& to = decisions_.placements(variables.look(now_[parameter], at));
      table.values.insert(table.values.end(), at.begin(), at.end());
      const auto seconds = reduction_costs(decisions_, item.info, from, to);
      table.costs.push_back(step.times * seconds.sending);
      in.costs.push_back(step.times * seconds.copying_in);
      out.costs.push_back(step.times * seconds.copying_out);
    } while (advance(at, variables.sizes));
    in.values = out.values = table.values;
    tables_.reduction.push_back(std::move(table));
    tables_.time.push_back(in);
    tables_.time.push_back(std::move(out));
    tables_.backward.push_back(std::move(in));
    now_[gradient] = now_[parameter];
  }

  const Program& program_;
  const Space& space_;
  Decisions& decisions_;
  std::size_t& most_rows_;
  std::size_t most_made_;
  std::vector<Version> now_;
  std::vector<bool> unwritten_;
  std::uint32_t next_ = 0;
  StepTables tables_;
};

}  // namespace

std::optional<StepTables> step_tables(const Program& program, const Space& space, Decisions& decisions,
                                      std::size_t& most_rows, std::size_t most_new) {
  return Writer(program, space, decisions, most_rows, most_new).write();
}

}  // namespace lockstep::plan
