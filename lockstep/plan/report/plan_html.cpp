// The HTML page of a plan, which is self-contained.
#include <lockstep/plan/report/explain.h>
#include <lockstep/plan/report/markup.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace lockstep::plan {
namespace {

constexpr std::string_view kStyle = R"(
:root { color-scheme: light dark; --ink: #1c2430; --dim: #5d6b7d; --page: #fbfbf9; --card: #ffffff; --line: #dfe3e8;
  --a: #2f6db5; --b: #d9822b; --c: #3d9970; --d: #8e5ea2; --e: #b94a48; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ee; --dim: #97a3b4; --page: #14181f; --card: #1c222c;
  --line: #303947; --a: #6ea8e8; --b: #eda45d; --c: #66c199; --d: #b98fd0; --e: #e07f7d; } }
body { margin: 2rem auto; max-width: 72rem; padding: 0 1rem; font: 15px/1.5 system-ui, sans-serif; color: var(--ink);
  background: var(--page); }
h1 { font-size: 1.5rem; margin: 0; } h2 { font-size: 1.05rem; margin: 2rem 0 .6rem; } p { margin: .3rem 0; }
.dim { color: var(--dim); } code, td.code { font-family: ui-monospace, monospace; font-size: .85em; }
.numbers { display: flex; flex-wrap: wrap; gap: 1rem; margin: 1.2rem 0; }
.number { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: .6rem 1rem; }
.number b { display: block; font-size: 1.4rem; }
.bar { display: flex; height: 1.1rem; background: var(--line); border-radius: 3px; overflow: hidden; min-width: 8rem; }
.bar span { display: block; height: 100%; }
.key span { display: inline-block; white-space: nowrap; margin-right: 1em; }
.key i { display: inline-block; width: .8em; height: .8em; border-radius: 2px; margin-right: .3em; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; width: 100%; }
th { text-align: left; color: var(--dim); font-weight: 500; } th, td { padding: .25rem .7rem .25rem 0; vertical-align: top;
  border-bottom: 1px solid var(--line); } td.right { text-align: right; white-space: nowrap; }
.mesh { display: grid; gap: 3px; width: max-content; } .mesh i { display: block; width: 1.5rem; height: 1.5rem;
  border-radius: 3px; font: 10px/1.5rem system-ui; text-align: center; color: #fff; font-style: normal; }
.best { font-weight: 600; } h1, p, code { overflow-wrap: anywhere; }
@media (max-width: 40rem) { body { margin: 1rem auto; padding: 0 .7rem; font-size: 14px; } .numbers { gap: .5rem; }
  .number { padding: .4rem .7rem; } .bar { min-width: 4rem; } th, td { padding-right: .4rem; }
  .wide tr:first-child { display: none; }
  .wide, .wide tbody, .wide tr, .wide td { display: block; width: auto; }
  .wide td { border: 0; padding: .1rem 0; overflow-wrap: anywhere; } .wide td.right { text-align: left; }
  .wide tr { border-bottom: 1px solid var(--line); padding: .4rem 0; }
  .wide td[data-of]:not(:empty)::before { content: attr(data-of) ": "; color: var(--dim); } }
)";

/// Different colours for the parts of a batch, as easy to distinguish as possible.
std::string colour_of_part(int part, int parts) {
  constexpr std::array<const char*, 5> kColours{"a", "b", "c", "d", "e"};
  if (parts <= static_cast<int>(kColours.size())) {
    return fmt::format("var(--{})", kColours.at(static_cast<std::size_t>(part)));
  }
  // Neighbours on the colour wheel differ in lightness, too. White numbers can be read on all of them.
  return fmt::format("hsl({:.2f} 60% {}%)", 360.0 * part / parts,
                     std::array{30, 46, 38}.at(static_cast<std::size_t>(part % 3)));
}

struct BarPart {
  std::string name;
  double share;  ///< of the whole bar
  const char* colour;
};

std::string bar(const std::vector<BarPart>& pieces) {
  std::string text = "<div class=\"bar\">";
  for (const auto& each : pieces) {
    if (each.share <= 0) continue;
    text += fmt::format("<span style=\"width:{:.2f}%;background:var(--{})\" title=\"{}\"></span>", 100 * each.share,
                        each.colour, escaped_markup(each.name));
  }
  return text + "</div>";
}

std::string key(const std::vector<BarPart>& pieces) {
  std::string text = "<p class=\"key dim\">";
  for (const auto& each : pieces)
    text +=
        fmt::format("<span><i style=\"background:var(--{})\"></i>{}</span>", each.colour, escaped_markup(each.name));
  return text + "</p>";
}

std::string number(const std::string& value, const std::string& what) {
  return fmt::format("<div class=\"number\"><b>{}</b><span class=\"dim\">{}</span></div>", escaped_markup(value),
                     escaped_markup(what));
}

/// The picture of the mesh: the last axis is horizontal, the other axes are vertical; colours are the parts of the
/// batch.
std::string mesh_part(const Plan& plan) {
  constexpr int kMostShown = 1024;
  if (plan.devices > kMostShown) return fmt::format("<p>{}</p>", shown_devices(plan.devices));
  int parts = 1;
  for (std::size_t axis = 0; axis < plan.mesh_sizes.size(); ++axis) {
    if (plan.inputs[axis].is_shard()) parts *= plan.mesh_sizes[axis];
  }
  std::string text =
      fmt::format("<div class=\"scroll\"><div class=\"mesh\" style=\"grid-template-columns:repeat({},1.5rem)\">",
                  plan.mesh_sizes.back());
  for (int rank = 0; rank < plan.devices; ++rank) {
    int part = 0;
    int rest = rank;
    int stride = plan.devices;
    for (std::size_t axis = 0; axis < plan.mesh_sizes.size(); ++axis) {
      stride /= plan.mesh_sizes[axis];
      if (plan.inputs[axis].is_shard()) part = part * plan.mesh_sizes[axis] + rest / stride;
      rest %= stride;
    }
    text += fmt::format("<i style=\"background:{}\" title=\"rank {}: part {} of the batch\">{}</i>",
                        colour_of_part(part, parts), rank, part, rank);
  }
  return text +
         fmt::format("</div></div><p class=\"dim\">Ranks with the same colour work on the same part of the batch{}</p>",
                     parts > 5 ? fmt::format(", of which there are {}; a rank's title has its number.", parts) : ".");
}

std::string memory_part(const Plan& plan) {
  const auto& memory = plan.prediction.memory;
  const double all = std::max(plan.device_memory.value, memory.total().value);
  const auto piece = [&](const char* name, Bytes bytes, const char* colour) {
    return BarPart{fmt::format("{} {}", name, shown(bytes)), bytes.value / all, colour};
  };
  const std::vector<BarPart> pieces{
      piece("parameters", memory.parameters, "a"), piece("gradients", memory.gradients, "b"),
      piece("optimizer", memory.optimizer_state, "c"), piece("activations", memory.activations, "d"),
      piece("buckets", memory.communication, "e")};
  return fmt::format("<p>{} of {} on each device</p>", shown(memory.total()), shown(plan.device_memory)) + bar(pieces) +
         key(pieces);
}

std::string modules_part(const Plan& plan) {
  const auto rows = grouped_rows(plan.modules);
  double longest = 1e-30;
  for (const auto& each : rows) longest = std::max(longest, (each.row.compute + each.row.communication).value);
  std::string text = key({{"compute", 0, "a"}, {"communication", 0, "b"}});
  text +=
      "<div class=\"scroll\"><table "
      "class=\"wide\"><tr><th>module</th><th>placement</th><th>time</th><th></th><th>second "
      "best placement</th><th>step with it</th></tr>";
  for (const auto& each : rows) {
    const auto name = each.times > 1
                          ? fmt::format("{} <span class=\"dim\">x{}</span>", escaped_markup(each.name), each.times)
                          : escaped_markup(each.name);
    text += fmt::format(
        "<tr><td class=\"code\">{}</td><td class=\"code\">{}</td><td class=\"right\">{}</td><td>{}</td><td "
        "class=\"code dim\" data-of=\"second best\">{}</td><td class=\"right dim\" data-of=\"step with "
        "it\">{}</td></tr>",
        name, escaped_markup(each.placement), shown(each.row.compute + each.row.communication),
        bar({{"compute " + shown(each.row.compute), each.row.compute.value / longest, "a"},
             {"communication " + shown(each.row.communication), each.row.communication.value / longest, "b"}}),
        escaped_markup(each.row.runner_up), each.row.runner_up_cost ? shown(*each.row.runner_up_cost) : "");
  }
  return text + "</table></div>";
}

std::string alternatives_part(const Plan& plan) {
  double longest = 1e-30;
  for (const auto& each : plan.alternatives) longest = std::max(longest, each.cost.value);
  std::string text =
      "<div class=\"scroll\"><table><tr><th></th><th>mesh</th><th>step</th><th></th><th>memory</th></tr>";
  for (const auto& each : plan.alternatives) {
    text += fmt::format("<tr{}><td>{}</td><td>{}</td><td class=\"right\">{}</td><td>{}</td><td>{}{}</td></tr>",
                        each.name == "auto" ? " class=\"best\"" : "", escaped_markup(each.name),
                        shown_mesh(each.mesh_sizes), shown(each.cost),
                        bar({{each.name, each.cost.value / longest, each.fits ? "a" : "e"}}), shown(each.memory),
                        each.fits ? "" : " (does not fit)");
  }
  return text + "</table></div>";
}

}  // namespace

std::string plan_html(const Plan& plan, const std::string& title) {
  const auto& time = plan.prediction;
  std::string text =
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
      "content=\"width=device-width, initial-scale=1\">";
  text += fmt::format("<title>{}</title><style>{}</style></head><body>\n<h1>{}</h1>", escaped_markup(title), kStyle,
                      escaped_markup(title));
  text += fmt::format("<p class=\"dim\">{} of \"{}\" as a mesh of {} &middot; plan <code>{}</code></p>",
                      shown_devices(plan.devices), escaped_markup(plan.cluster),
                      escaped_markup(shown_mesh(plan.mesh_sizes, plan.mesh_names)), plan_hash(plan).substr(0, 12));
  text += "<div class=\"numbers\">" + number(shown(time.cost), "a step") + number(shown(time.compute), "compute") +
          number(shown(time.communication + time.redistribution), "waiting for collectives") +
          number(shown(time.exposed),
                 fmt::format("waiting for gradients (reducing them takes {})", shown(time.reduction))) +
          "</div>\n<p>" + escaped_markup(shown_proof(plan)) + "</p>\n";
  text += "<h2>Alternatives</h2>" + alternatives_part(plan) + "\n<h2>Memory</h2>" + memory_part(plan) +
          "\n<h2>The mesh</h2>" + mesh_part(plan) + "\n<h2>Modules</h2>" + modules_part(plan);
  text +=
      "<p class=\"dim\">R: whole on every rank of the axis. S0: divided in dimension 0 (outputs of a layer). S1: in "
      "dimension 1 (inputs).</p>";
  return text + "</body></html>\n";
}

}  // namespace lockstep::plan
