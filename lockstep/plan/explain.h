// The explanation of a plan for people: as text, and as an HTML page. Pure.
#pragma once

#include <lockstep/plan/plan.h>

#include <string>

namespace lockstep::plan {

/// What was decided, what it costs and why, beside the alternatives; lines of up to about 120 characters.
std::string explain(const Plan& plan);

/// The same as one page that needs nothing else: no network, no scripts; light and dark.
std::string plan_html(const Plan& plan, const std::string& title);

}  // namespace lockstep::plan
