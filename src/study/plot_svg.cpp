#include "study/plot_svg.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>

#include "base/check.hpp"

namespace reprofuse::study {
namespace {

constexpr double kPanelWidth = 460, kPanelHeight = 330;
constexpr double kLeft = 62, kRight = 14, kTop = 34, kBottom = 50;  // of a panel, around its axes
constexpr double kHead = 84;                                        // title and legend of the figure
constexpr double kLegendEntry = 148;
constexpr double kTickGap = 24;  // closer labels would touch
constexpr int kStyles = 6;       // lines that can be told apart

// Colours that the colour-blind can tell apart, in two sets for the two backgrounds; marks tell them apart as well.
constexpr const char* kStyleSheet = R"css(
text { font: 12px system-ui, sans-serif; fill: #1d2433; } .title { font-size: 15px; font-weight: 600; }
.panel { font-weight: 600; } .page { fill: #fdfdfc; } .grid { stroke: #dfe3e8; stroke-width: 1; }
.axis { stroke: #5b6577; stroke-width: 1; fill: none; }
.line { fill: none; stroke-width: 2; } .floor { fill: none; stroke-width: 1.5; stroke-dasharray: 6 4; }
.c0 { stroke: #0062a3; } .c1 { stroke: #c04a00; } .c2 { stroke: #00795a; } .c3 { stroke: #a0467c; }
.c4 { stroke: #7a6200; } .c5 { stroke: #3f3f3f; } .f0 { stroke: #5b6577; stroke-dasharray: 2 4; }
.f1 { stroke: #1d2433; } .mark { fill: #fdfdfc; stroke-width: 2; }
@media (prefers-color-scheme: dark) {
text { fill: #e6e9ef; } .page { fill: #14171c; } .grid { stroke: #2b313b; } .axis { stroke: #a3adbd; }
.c0 { stroke: #6cb6ff; } .c1 { stroke: #ff9d5c; } .c2 { stroke: #4fd1a5; } .c3 { stroke: #f08bc4; }
.c4 { stroke: #e6d36a; } .c5 { stroke: #d0d0d0; } .f0 { stroke: #a3adbd; } .f1 { stroke: #e6e9ef; }
.mark { fill: #14171c; } }
)css";

std::string escaped(std::string_view text) {
  std::string safe;
  for (const char c : text) safe += c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : std::string(1, c);
  return safe;
}

// One axis: logarithms between two ends, on a stretch of the page.
struct Axis {
  double low, high;  // values
  double from, to;   // places

  double place(double value) const {
    return from + (to - from) * (std::log10(value) - std::log10(low)) / (std::log10(high) - std::log10(low));
  }
};

// 1, 2, 5, 10, 20, ... within the axis.
std::vector<double> round_values(const Axis& axis) {
  std::vector<double> values;
  for (double decade = std::pow(10, std::floor(std::log10(axis.low))); decade <= axis.high; decade *= 10)
    for (const double step : {1.0, 2.0, 5.0})
      if (decade * step >= axis.low * 0.999 && decade * step <= axis.high * 1.001) values.push_back(decade * step);
  return values;
}

std::string tick_text(double value) {
  if (value >= 1e6) return fmt::format("{:g}M", value / 1e6);
  return value >= 1e4 ? fmt::format("{:g}k", value / 1e3) : fmt::format("{:g}", value);
}

std::string mark(std::size_t style, double x, double y) {
  switch (style % 3) {
    case 0: return fmt::format("<circle class=\"mark c{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\"/>", style, x, y);
    case 1:
      return fmt::format("<rect class=\"mark c{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"7\" height=\"7\"/>", style,
                         x - 3.5, y - 3.5);
    default: return fmt::format("<path class=\"mark c{}\" d=\"M{:.1f} {:.1f}l4.5 8h-9z\"/>", style, x, y - 5);
  }
}

// The figure's lines by name, in order of appearance: what a colour means.
class Legend {
 public:
  explicit Legend(const Plot& plot) {
    for (const PlotPanel& panel : plot.panels)
      for (const PlotLine& line : panel.lines) {
        auto& names = line.is_floor ? floors_ : lines_;
        if (std::find(names.begin(), names.end(), line.name) == names.end()) names.push_back(line.name);
      }
    require(lines_.size() <= kStyles && floors_.size() <= 2, "plot '{}': {} lines and {} floors; {} and 2 at most",
            plot.title, lines_.size(), floors_.size(), kStyles);
  }

  std::size_t style(const PlotLine& line) const {
    const auto& names = line.is_floor ? floors_ : lines_;
    return static_cast<std::size_t>(std::find(names.begin(), names.end(), line.name) - names.begin());
  }

  std::string draw() const {
    std::string text;
    double x = 16;
    constexpr double kRow = 56;
    for (std::size_t i = 0; i < lines_.size() + floors_.size(); ++i, x += kLegendEntry) {
      const bool is_floor = i >= lines_.size();
      const std::size_t style = is_floor ? i - lines_.size() : i;
      text += fmt::format("<path class=\"{} {}{}\" d=\"M{} {}h28\"/>\n", is_floor ? "floor" : "line",
                          is_floor ? "f" : "c", style, x, kRow);
      if (!is_floor) text += mark(style, x + 14, kRow) + "\n";
      text += fmt::format("<text x=\"{}\" y=\"{}\">{}</text>\n", x + 36, kRow + 4,
                          escaped(is_floor ? floors_[style] : lines_[style]));
    }
    return text;
  }

  double width() const { return 32 + kLegendEntry * static_cast<double>(lines_.size() + floors_.size()); }

 private:
  std::vector<std::string> lines_, floors_;
};

struct Axes {
  Axis x, y;
};

Axes axes_of(const PlotPanel& panel, double left, double top) {
  std::vector<double> xs, ys;
  for (const PlotLine& line : panel.lines) {
    for (const PlotPoint& point : line.points) {
      require(point.x > 0 && point.y > 0 && std::isfinite(point.x) && std::isfinite(point.y),
              "plot '{}', line '{}': ({}, {}) has no place on logarithmic axes", panel.title, line.name, point.x,
              point.y);
      xs.push_back(point.x);
      ys.push_back(point.y);
    }
  }
  require(!xs.empty(), "plot '{}': nothing to draw", panel.title);
  constexpr double kRoom = 1.15;  // beside the outermost points
  const auto [x_low, x_high] = std::minmax_element(xs.begin(), xs.end());
  const auto [y_low, y_high] = std::minmax_element(ys.begin(), ys.end());
  return {{*x_low / kRoom, *x_high * kRoom, left + kLeft, left + kPanelWidth - kRight},
          {*y_low / kRoom, *y_high * kRoom, top + kPanelHeight - kBottom, top + kTop}};
}

// x has a label at each measured value that has room for it; y at round values.
std::string draw_grid(const PlotPanel& panel, const Axes& axes) {
  std::string text;
  std::set<double> xs;
  for (const PlotLine& line : panel.lines)
    for (const PlotPoint& point : line.points) xs.insert(point.x);
  double last = -kTickGap;
  for (const double x : xs) {
    const double at = axes.x.place(x);
    text += fmt::format("<path class=\"grid\" d=\"M{:.1f} {:.1f}V{:.1f}\"/>\n", at, axes.y.from, axes.y.to);
    if (at - last < kTickGap) continue;
    text += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>\n", at, axes.y.from + 17,
                        tick_text(x));
    last = at;
  }
  last = axes.y.from + kTickGap;
  for (const double y : round_values(axes.y)) {
    const double at = axes.y.place(y);
    text += fmt::format("<path class=\"grid\" d=\"M{:.1f} {:.1f}H{:.1f}\"/>\n", axes.x.from, at, axes.x.to);
    if (last - at < kTickGap * 0.75) continue;
    text += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n", axes.x.from - 6, at + 4,
                        tick_text(y));
    last = at;
  }
  return text + fmt::format("<path class=\"axis\" d=\"M{:.1f} {:.1f}V{:.1f}H{:.1f}\"/>\n", axes.x.from, axes.y.to,
                            axes.y.from, axes.x.to);
}

std::string draw_line(const PlotLine& line, std::size_t style, const Axes& axes) {
  std::string path, marks;
  for (const PlotPoint& point : line.points) {
    const double x = axes.x.place(point.x), y = axes.y.place(point.y);
    path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", x, y);
    if (!line.is_floor) marks += mark(style, x, y) + "\n";
  }
  return fmt::format("<path class=\"{} {}{}\" d=\"{}\"><title>{}</title></path>\n{}", line.is_floor ? "floor" : "line",
                     line.is_floor ? "f" : "c", style, path, escaped(line.name), marks);
}

std::string draw_panel(const Plot& plot, const PlotPanel& panel, const Legend& legend, double left, double top) {
  const Axes axes = axes_of(panel, left, top);
  std::string text =
      fmt::format("<text class=\"panel\" x=\"{}\" y=\"{}\">{}</text>\n", left + kLeft, top + 20, escaped(panel.title));
  text += draw_grid(panel, axes);
  for (const bool floors : {true, false})  // measurements on top
    for (const PlotLine& line : panel.lines)
      if (line.is_floor == floors && !line.points.empty()) text += draw_line(line, legend.style(line), axes);
  text += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>\n",
                      (axes.x.from + axes.x.to) / 2, axes.y.from + 36, escaped(plot.x_label));
  const double middle = (axes.y.from + axes.y.to) / 2;
  return text + fmt::format(
                    "<text transform=\"rotate(-90 {0:.1f} {1:.1f})\" x=\"{0:.1f}\" y=\"{1:.1f}\" "
                    "text-anchor=\"middle\">{2}</text>\n",
                    left + 14, middle, escaped(plot.y_label));
}

}  // namespace

std::string to_svg(const Plot& plot) {
  require(!plot.panels.empty(), "plot '{}': nothing to draw", plot.title);
  const Legend legend(plot);
  const std::size_t columns = std::min<std::size_t>(2, plot.panels.size());
  const std::size_t rows = (plot.panels.size() + columns - 1) / columns;
  const double width = std::max({kPanelWidth * static_cast<double>(columns), legend.width(), 560.0});
  const double height = kHead + kPanelHeight * static_cast<double>(rows);
  std::string text = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" role=\"img\">\n"
      "<title>{2}</title>\n<style>{3}</style>\n<rect class=\"page\" width=\"{0}\" height=\"{1}\"/>\n"
      "<text class=\"title\" x=\"16\" y=\"28\">{2}</text>\n",
      width, height, escaped(plot.title), kStyleSheet);
  text += legend.draw();
  for (std::size_t i = 0; i < plot.panels.size(); ++i) {
    const std::size_t row = i / columns, column = i % columns;
    text += draw_panel(plot, plot.panels[i], legend, kPanelWidth * static_cast<double>(column),
                       kHead + kPanelHeight * static_cast<double>(row));
  }
  return text + "</svg>\n";
}

}  // namespace reprofuse::study
