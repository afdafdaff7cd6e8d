"""Temperature and clock as the kernel tells them; what it does not tell is not there."""

from workers.selftester import DeviceReport
from workers.sensors import Sensors, sensing


def write(root, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


def test_the_hottest_sensor_of_the_processor_and_the_mean_clock(tmp_path):
    write(tmp_path, "sys/class/hwmon/hwmon0/name", "nvme\n")
    write(tmp_path, "sys/class/hwmon/hwmon0/temp1_input", "99000\n")
    write(tmp_path, "sys/class/hwmon/hwmon1/name", "k10temp\n")
    write(tmp_path, "sys/class/hwmon/hwmon1/temp1_input", "61234\n")
    write(tmp_path, "sys/class/hwmon/hwmon1/temp2_input", "58000\n")
    for cpu, khz in enumerate((3_000_000, 3_200_000, 1_000_000)):
        write(tmp_path, f"sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_cur_freq", f"{khz}\n")
    assert Sensors(cpus=(0, 1), root=tmp_path).read() == {"temperature_celsius": 61, "clock_mhz": 3100.0}


def test_a_board_tells_a_thermal_zone_and_cpuinfo(tmp_path):
    write(tmp_path, "sys/class/thermal/thermal_zone0/type", "cpu-thermal\n")
    write(tmp_path, "sys/class/thermal/thermal_zone0/temp", "48500\n")
    write(
        tmp_path,
        "proc/cpuinfo",
        "processor\t: 0\ncpu MHz\t\t: 2596.120\nprocessor\t: 1\ncpu MHz\t\t: 2404.0\n",
    )
    assert Sensors(cpus=(1,), root=tmp_path).read() == {"temperature_celsius": 48, "clock_mhz": 2400.0}


def test_what_the_host_does_not_tell_leaves_the_report_as_it_is(tmp_path):
    sensors = Sensors(cpus=(0,), root=tmp_path, every_secs=0.0)
    report = sensing(lambda: DeviceReport(facts={"selftest": None}), sensors)
    assert report() == DeviceReport(facts={"selftest": None})
    write(tmp_path, "proc/cpuinfo", "cpu MHz\t: 1000\n")
    assert report().facts == {"selftest": None, "sensors": {"clock_mhz": 1000.0}}
