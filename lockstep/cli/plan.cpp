// `lockstep plan`: the layout of a configured run on devices that need not exist.
#include <lockstep/base/config.h>
#include <lockstep/base/error.h>
#include <lockstep/base/files.h>
#include <lockstep/base/nearest.h>
#include <lockstep/base/text.h>
#include <lockstep/cli/command.h>
#include <lockstep/models/gpt.h>
#include <lockstep/plan/report/explain.h>
#include <lockstep/plan/search/search.h>
#include <lockstep/plan/tables/table_advice.h>
#include <lockstep/train/keys/config_keys.h>
#include <lockstep/train/keys/foreign_tables.h>
#include <lockstep/train/modes/auto_mode.h>
#include <lockstep/train/modes/planned_run.h>
#include <lockstep/train/modes/strategies.h>
#include <lockstep/train/program.h>
#include <lockstep/train/resolved_run.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::cli {
namespace {

constexpr std::int64_t kMostLayers = 1000;

struct GptStep {
  models::GptShape shape{
      .vocabulary = 50304, .context = 1024, .layers = 12, .heads = 12, .width = 768, .dropout = 0, .tied_head = false};
  std::int64_t batch = 64;
};

GptStep read_gpt(std::string_view text) {
  GptStep step;
  const std::map<std::string, std::int64_t*, std::less<>> fields{
      {"layers", &step.shape.layers},   {"width", &step.shape.width},           {"heads", &step.shape.heads},
      {"context", &step.shape.context}, {"vocabulary", &step.shape.vocabulary}, {"batch", &step.batch}};
  std::vector<std::string> names;
  names.reserve(fields.size());
  for (const auto& [name, value] : fields) names.push_back(name);
  while (!text.empty()) {
    const auto item = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), item.size() + 1));
    const auto equals = item.find('=');
    const auto name = item.substr(0, equals);
    const auto field = fields.find(name);
    const std::int64_t value =
        equals == std::string_view::npos ? 0 : parse_integer(item.substr(equals + 1)).value_or(0);
    if (name == "layers" && value > kMostLayers) {
      fail(ErrorKind::invalid_argument, "plan", "--gpt takes at most {} layers, which are planned in seconds; got '{}'",
           kMostLayers, item);
    }
    if (field == fields.end() || value < 1) {
      fail(ErrorKind::invalid_argument, "plan", "--gpt takes NAME=NUMBER,... with names {}; got '{}'{}",
           fmt::join(names, ", "), item, field == fields.end() ? did_you_mean(name, names) : "");
    }
    *field->second = value;
  }
  return step;
}

constexpr const char* kPlanFooter =
    "Needs neither the devices nor the data: the step of the configured model is traced without memory, and its cost\n"
    "on the cluster that --cluster describes is computed. 'lockstep calibrate' writes such a description of this\n"
    "machine; docs/plan.md explains the file, the costs and what is printed. data.batch_size is that of one device, "
    "as\n"
    "in data parallel training, data.global_batch_size that of all.\n"
    "\n"
    "Examples:\n"
    "  lockstep plan --config configs/resnet50_cifar10.yaml --devices 8\n"
    "  lockstep plan --config configs/vgg11_cifar10_auto.yaml --mesh 2x8 --cluster cluster.yaml --compare zero3\n"
    "  lockstep plan --config configs/mlp_mnist_auto.yaml --devices 16 --network 2 --memory 0.5       what if\n"
    "  lockstep plan --config configs/mlp_mnist_auto.yaml --devices 4 --json plan.json --html plan.html\n"
    "  lockstep plan --config configs/mlp_mnist_auto.yaml --devices 2 --choose zero3 --save zero3.json  for\n"
    "      parallel.plan\n"
    "  lockstep plan --config configs/recsys/wide_and_deep_criteo.yaml --devices 4        which way for its tables\n"
    "  lockstep plan --gpt layers=96,width=12288,heads=96,context=2048,batch=1024 --mesh 8x8x16 --cluster FILE";

struct PlanArguments {
  std::string config;
  std::vector<std::string> overrides;
  std::string gpt;
  std::string mesh;
  std::optional<int> devices;
  std::optional<int> servers;
  std::string cluster;
  std::vector<std::string> compare{plan::kAlternatives.begin(), plan::kAlternatives.end()};
  plan::WhatIf what_if;
  std::string json;
  std::string html;
  std::string choose{plan::kBest};
  std::string save;
};

std::vector<int> sizes_of(std::string_view text) {
  std::vector<int> sizes;
  while (true) {
    const auto end = text.find('x');
    const auto size = parse_integer(text.substr(0, end));
    if (!size || *size < 1 || *size > plan::kMostDevices) {
      fail(ErrorKind::invalid_argument, "plan", "--mesh takes sizes of axes such as 8, 2x8 or 8x8x16; got '{}'", text);
    }
    sizes.push_back(static_cast<int>(*size));
    if (end == std::string_view::npos) return sizes;
    text.remove_prefix(end + 1);
  }
}

int devices_of(const PlanArguments& arguments, const std::optional<std::vector<int>>& mesh) {
  const int of_mesh = mesh ? std::accumulate(mesh->begin(), mesh->end(), 1, std::multiplies<>()) : 0;
  if (mesh && arguments.devices && *arguments.devices != of_mesh) {
    fail(ErrorKind::invalid_argument, "plan", "--mesh {} has {} devices, but --devices is {}; give one of them",
         arguments.mesh, of_mesh, *arguments.devices);
  }
  if (mesh) return of_mesh;
  if (arguments.devices) return *arguments.devices;
  if (!arguments.cluster.empty()) return plan::load_cluster(arguments.cluster, train::refused_words()).devices();
  fail(ErrorKind::invalid_argument, "plan",
       "the number of devices is missing: give --devices 16, a mesh such as --mesh 2x8, or a --cluster that has it");
}

// What is planned for: the devices that the arguments name, and the cluster that they are in.
struct Place {
  std::optional<std::vector<int>> mesh;
  int devices = 1;
};

Place place_of(const PlanArguments& arguments) {
  if (arguments.config.empty() == arguments.gpt.empty()) {
    fail(ErrorKind::invalid_argument, "plan", "there is nothing to plan: give either --config FILE or --gpt SIZES");
  }
  Place place;
  if (!arguments.mesh.empty()) place.mesh = sizes_of(arguments.mesh);
  place.devices = devices_of(arguments, place.mesh);
  return place;
}

plan::Cluster cluster_of(const PlanArguments& arguments, train::ParallelConfig parallel, const Place& place) {
  if (!arguments.cluster.empty()) parallel.cluster = arguments.cluster;
  return plan::scaled(train::planned_cluster(parallel, place.devices), arguments.what_if);
}

plan::Plan search(const PlanArguments& arguments, const Place& place, const train::PlannedStep& step,
                  const plan::Cluster& cluster, plan::SearchOptions options) {
  if (place.mesh) options.mesh = place.mesh;
  options.compare = arguments.compare;
  options.choose = arguments.choose;
  auto plan = plan::search(step.graph, cluster, options);
  plan.trace_time = plan::Seconds{step.seconds};
  return plan;
}

plan::Plan plan_step(const PlanArguments& arguments, const Place& place, const train::ResolvedRun& config,
                     const train::Program& program, const plan::Cluster& cluster) {
  if (train::is_auto_mode(config.parallel)) {
    auto request = train::planned_search(config, program, place.devices);
    return search(arguments, place, request.step, cluster, std::move(request.options));
  }
  const auto step = train::trace_run(config, program, train::samples_of_step(config, place.devices));
  return search(arguments, place, step, cluster, {});
}

int print_plan(const PlanArguments& arguments, const plan::Plan& plan) {
  fmt::print("{}", plan::explain(plan));
  if (!arguments.json.empty()) write_file_atomically(arguments.json, plan::plan_json(plan));
  if (!arguments.save.empty()) plan::save_plan(plan, arguments.save);
  if (!arguments.html.empty())
    write_file_atomically(
        arguments.html,
        plan::plan_html(plan, fmt::format("{} on {}", arguments.gpt.empty() ? arguments.config : arguments.gpt,
                                          plan::shown_devices(plan.devices))));
  return kOk;
}

int print_advice(const PlanArguments& arguments, const plan::TableAdvice& advice) {
  if (!arguments.html.empty() || !arguments.save.empty()) {
    fail(ErrorKind::invalid_argument, "plan",
         "there is no plan to {}: with an optimizer of rows, everything but the tables is data parallel; an ordinary "
         "one, such as optimizer.name=adam, plans whole tables",
         arguments.html.empty() ? "--save" : "draw with --html");
  }
  fmt::print("{}", plan::explain(advice));
  if (!arguments.json.empty()) write_file_atomically(arguments.json, plan::advice_json(advice));
  return kOk;
}

// Servers hold tables of rows; a plan of anything else has no place for them.
void refuse_servers(const PlanArguments& arguments) {
  if (!arguments.servers) return;
  fail(ErrorKind::invalid_argument, "plan",
       "there is nothing for --servers {} to hold: servers hold embedding tables that an optimizer of rows trains "
       "(optimizer.name=lazy_adam, lazy_adagrad or ftrl); configs/recsys/wide_and_deep_criteo.yaml is an example",
       *arguments.servers);
}

int plan_and_print(const PlanArguments& arguments, const KnownParts& parts) {
  for (const auto& [flag, file] :
       {std::pair{"--json", arguments.json}, {"--html", arguments.html}, {"--save", arguments.save}}) {
    if (!file.empty()) require_writable_file(file, flag);
  }
  const auto place = place_of(arguments);
  if (!arguments.gpt.empty()) {
    refuse_servers(arguments);
    const auto cluster = cluster_of(arguments, {}, place);
    const auto gpt = read_gpt(arguments.gpt);
    return print_plan(arguments, search(arguments, place, train::trace_gpt(gpt.shape, gpt.batch), cluster, {}));
  }
  const auto config = train::load_run_config(arguments.config, arguments.overrides, parts);
  const auto program = train::configured_program(config);
  const auto cluster = cluster_of(arguments, config.parallel, place);
  const auto tables = train::planned_tables(config, program, place.devices, arguments.servers);
  if (tables) return print_advice(arguments, plan::advise(*tables, cluster));
  refuse_servers(arguments);
  return print_plan(arguments, plan_step(arguments, place, config, program, cluster));
}

std::vector<std::string> chosen_names() {
  std::vector<std::string> names{std::string(plan::kBest)};
  names.insert(names.end(), plan::kAlternatives.begin(), plan::kAlternatives.end());
  return names;
}

void add_what_if(CLI::App& command, plan::WhatIf& what_if) {
  const auto in_range = [](const std::string& text) {
    const auto number = parse_number(text);
    const bool fits = number && *number >= 1e-6 && *number <= 1e6;
    return fits ? std::string() : fmt::format("a number from 1e-6 to 1e6 is needed, not {}", text);
  };
  const auto factor = [&](const char* flag, double& value, const char* text) {
    command.add_option(flag, value, text)->type_name("FACTOR")->check(in_range)->group("What if");
  };
  factor("--network", what_if.network, "Bandwidth between nodes, times this");
  factor("--intra", what_if.intra, "Bandwidth within a node, times this");
  factor("--latency", what_if.latency, "Latency of all links, times this");
  factor("--memory", what_if.memory, "Memory of each device, times this");
  factor("--compute", what_if.compute, "Speed of each device, times this");
}

}  // namespace

void add_plan(CLI::App& app, const KnownParts& parts, Action& chosen) {
  CLI::App* command = app.add_subcommand("plan", "Plan how a run is best divided among devices, and explain it");
  const auto arguments = std::make_shared<PlanArguments>();
  command->add_option("--config", arguments->config, "The YAML file that describes the run")->type_name("FILE");
  command
      ->add_option("--gpt", arguments->gpt,
                   "Instead of a run, a GPT with AdamW: layers, width, heads, context, vocabulary and the whole batch")
      ->type_name("NAME=N,...");
  // CLI11 2.4 rejects a name with '='.
  command->add_option("KEYS", arguments->overrides, "Replaces a key of the file")->type_name("KEY=VALUE");
  command->add_option("--mesh", arguments->mesh, "Sizes of the mesh's axes, like 2x8; else the best shape is found")
      ->type_name("SIZES");
  command->add_option("--devices", arguments->devices, "How many devices")
      ->type_name("N")
      ->check(CLI::Range(1, plan::kMostDevices));
  command
      ->add_option("--servers", arguments->servers,
                   "For a model with embedding tables: parameter servers; else cluster.server_num, or as many as fit")
      ->type_name("N")
      ->check(CLI::Range(1, plan::kMostDevices));
  command->add_option("--cluster", arguments->cluster, "YAML that describes nodes, devices and links; else a guess")
      ->type_name("FILE");
  command
      ->add_option("--compare", arguments->compare,
                   fmt::format("Ways to show beside the plan: {}", fmt::join(plan::kAlternatives, ", ")))
      ->delimiter(',')
      ->type_name("NAMES");
  command
      ->add_option("--choose", arguments->choose,
                   "Make the plan that of an alternative instead, e.g. to --save and measure it")
      ->type_name("NAME")
      ->check(CLI::IsMember(chosen_names()))
      ->capture_default_str();
  command->add_option("--json", arguments->json, "Write the plan and its costs, for programs")->type_name("FILE");
  command->add_option("--html", arguments->html, "Draw the plan, to be opened without a network")->type_name("FILE");
  command->add_option("--save", arguments->save, "Write the plan for parallel.plan of a run")->type_name("FILE");
  add_what_if(*command, arguments->what_if);
  command->footer(kPlanFooter);
  command->callback([=, &chosen] { chosen = [=] { return plan_and_print(*arguments, parts); }; });
}

}  // namespace lockstep::cli
