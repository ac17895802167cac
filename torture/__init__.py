"""Campaigns that try to break Banyan: `make torture`. Each prints what it tried, what failed, and its seed.

campaign   what every campaign returns and how it is printed
folders    mutated model folders
"""
